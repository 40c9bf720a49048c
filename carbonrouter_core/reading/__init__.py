"""Reading what people bring: files, columns, JSON, times and small tables, checked."""
