"""What `perdure doctor` looks at, and what it can mend. A check never raises for what it is to find; it says so."""
