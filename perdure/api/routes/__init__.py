"""The API's routes, a module for each noun. A route maps a request to the runtime or the store, and rows to an answer."""
