"""What every room builds on: errors, processes, formatting, caching, waking workers, SQL.

Nothing here knows of judges or of people: a rule about them belongs to their own room.
"""
