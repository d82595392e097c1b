"""The steps of the two flows, one file each; no step calls a flow."""
