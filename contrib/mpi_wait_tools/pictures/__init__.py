"""Pages and sheets. Pictures are lists of shapes, which templates print."""
