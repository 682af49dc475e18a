"""Neural network pieces: functional forms and Parameter."""
