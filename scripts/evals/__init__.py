"""Problems with answers that a program can judge, and the judging."""
