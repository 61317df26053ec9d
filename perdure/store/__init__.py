"""Rows: the only code that speaks SQL. One module per table or group of tables; hot writes are SQL functions."""
