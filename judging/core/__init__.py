"""What every room of FairJudge builds on: errors, processes, formatting, caching, waking, SQL.

Nothing here knows of judges or of people: what is about them belongs to the room that they have.
"""
