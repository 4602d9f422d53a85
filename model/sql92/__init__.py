"""SQL92 conditions on a message's properties: text -> tokens -> syntax tree -> closures. Grammar: docs/guide/filters.md."""
