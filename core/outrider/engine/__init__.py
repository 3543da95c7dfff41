"""llama.cpp behind one narrow interface. Nothing outside this package touches libllama."""
