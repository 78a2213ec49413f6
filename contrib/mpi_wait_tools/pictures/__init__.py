"""Pages and sheets: pictures as shapes, and the templates that print them."""
