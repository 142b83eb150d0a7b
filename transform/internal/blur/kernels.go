package blur

import "github.com/imgfeed/imgfeed/internal/kernel"

//go:generate go run ../../../internal/lanes/generate box_avx2.go gaussian_avx2.go

// kernels are what one level does its own way.
type kernels struct {
	box     boxKernel
	rows    rowsKernel
	columns columnsKernel
}

var byLevel kernel.Table[kernels]
