"""From a recorded capture to a report: what each record says, and what happened. No torch, no notebook."""
