"""What every remote model endpoint needs, whatever it serves: a connection, typed failures, a limit, a second try."""
