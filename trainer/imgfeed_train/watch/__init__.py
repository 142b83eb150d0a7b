"""What a run tells: logs, the lines between batches, where time goes, who holds whom up, what machine and feed do."""
