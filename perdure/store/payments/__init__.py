"""Prepaid balances in PostgreSQL: accounts, the tokens that pay from them, holds and settlements."""
