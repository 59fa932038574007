"""What every room builds on: errors, leases, formatting, caching, waking workers, SQL.

Nothing here knows about judges or people: a rule about them belongs to their own room.
"""
