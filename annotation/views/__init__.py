"""The manager's pages: settings, people, rounds, decisions; and accepting an invitation."""
