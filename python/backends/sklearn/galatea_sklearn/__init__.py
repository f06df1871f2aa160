"""What the backend of scikit-learn knows about estimators: their files, what they take, and what they give."""
