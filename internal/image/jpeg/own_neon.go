//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package jpeg

func listSymbolsNEON(q *quadBlock, l *symbolList) int { return listSymbolsGeneric(q, l) }
