package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestLevels compares every level's checksum with hash/crc32's, of all short lengths, of lengths about the ends of
// pages and groups, and at every alignment.
func TestLevels(t *testing.T) {
	data := make([]byte, 300_000)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(data)
	var lengths []int
	for n := range 2200 {
		lengths = append(lengths, n)
	}
	for n := 16384 - 70; n < 16384+140; n++ {
		lengths = append(lengths, n, n+16384, n+5*16384)
	}
	for n := -20; n < 40; n++ { // about the ends of eight stretches of either length
		lengths = append(lengths, 8*528+n, 2*8*528+n, 8*4160+n, 8*4160+8*528+n)
	}
	lengths = append(lengths, 139_000, 299_000)
	for _, level := range kernel.Available() {
		sum := checksumOf(level)
		for _, n := range lengths {
			p := data[n%67:][:n]
			got, want := sum(p), crc32.Checksum(p, castagnoli)
			testenv.Require(t, got == want, "%v: %d bytes: %08x, want %08x", level, n, got, want)
		}
		testenv.Equal(t, sum([]byte("123456789")), 0xe3069283, "%v", level)
	}
}

// BenchmarkChecksum measures records of an image's size, in the caches and out of them.
func BenchmarkChecksum(b *testing.B) {
	const record = 139_000
	data := make([]byte, 512<<20)
	for i := range data {
		data[i] = byte(i >> 4)
	}
	for _, level := range kernel.Available() {
		sum := checksumOf(level)
		for name, count := range map[string]int{"warm": 1, "cold": len(data) / record} {
			b.Run(fmt.Sprintf("%v/%s", level, name), func(b *testing.B) {
				b.SetBytes(record)
				for i := range b.N {
					sum(data[i*7919%count*record:][:record])
				}
			})
		}
	}
}
