package main

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// A distribution describes numbers: how many, from where to where, and a histogram.
type distribution struct {
	Count  int     `json:"count"`
	Min    float64 `json:"min"`
	P5     float64 `json:"p5"` // 5 in 100 are below
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	// Histogram counts the numbers in bins of equal width from Low to High, which leave out the farthest hundredth at each end.
	Histogram []int   `json:"histogram"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
}

// histogramBins is as many columns as fit beside a name in a terminal of 80.
const histogramBins = 40

// A tally counts how often each number comes: of a set's millions of samples few have a size or a length of their own.
type tally map[float64]int

// distribution describes the numbers.
func (t tally) distribution() distribution {
	numbers := slices.Sorted(maps.Keys(t))
	if len(numbers) == 0 {
		return distribution{Histogram: []int{}}
	}
	n, sum := 0, 0.0
	below := make([]int, len(numbers)) // how many numbers are as small as each, or smaller
	for i, x := range numbers {
		n += t[x]
		below[i] = n
		sum += x * float64(t[x])
	}
	at := func(share float64) float64 {
		i, _ := slices.BinarySearch(below, int(math.Round(share*float64(n-1)))+1)
		return numbers[i]
	}
	d := distribution{Count: n, Min: numbers[0], P5: at(0.05), Median: at(0.5), P95: at(0.95), Max: numbers[len(numbers)-1], Low: at(0.01), High: at(0.99)}
	d.Mean = sum / float64(n)
	d.Histogram = make([]int, histogramBins)
	if d.Low == d.High {
		d.Histogram[0] = n
		return d
	}
	for _, x := range numbers {
		if x >= d.Low && x <= d.High {
			d.Histogram[min(int(float64(histogramBins)*(x-d.Low)/(d.High-d.Low)), histogramBins-1)] += t[x]
		}
	}
	return d
}

// sparkline draws a histogram in a line of text.
func sparkline(histogram []int) string {
	const bars = "▁▂▃▄▅▆▇█"
	highest := slices.Max(append([]int{1}, histogram...))
	var b strings.Builder
	for _, n := range histogram {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune(bars)[(n*8-1)/highest])
	}
	return strings.TrimRight(b.String(), " ")
}
