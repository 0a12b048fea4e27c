"""Results as plain data, which reports and the gate only read: analyses, judgements, comparisons; JSON in and out."""
