package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// tableMax is the largest size of a permutation stored as a shuffled table. A Feistel network over so few values has too few
// distinct permutations to pass for random; a table of this size costs 4 KB.
const tableMax = 1024

// feistelRounds is even, so that the halves have swapped back at the end.
const feistelRounds = 8

// A permutation is a keyed bijection of [0, size), evaluated on demand.
//
// The key is SHA-256("imgfeed plan v1\0" fingerprint "\0" seed "\0" epoch "\0" partition), the numbers in decimal.
//
// Up to [tableMax] values it is a Fisher–Yates shuffle drawn from PCG-DXSM (math/rand/v2) seeded with the key's first 16 bytes. A
// larger one is an eight-round Feistel network over the smallest 2^n ≥ size. It splits n bits into n/2 high and n−n/2 low ones.
//
// The network is applied again while its result is size or more, fewer than twice on average. This cycle walking keeps the map a
// bijection on the smaller range. Round i adds mix(right + key[i]) to the left half by exclusive or and swaps the halves. Here mix is
// the finaliser of SplitMix64, and key[i] comes from the hash's four words as words[i mod 4] + i·0x9E3779B97F4A7C15.
type permutation struct {
	size  uint64
	table []int32
	high  uint // bits of the left half before the first round
	low   uint // bits of the right half before the first round
	keys  [feistelRounds]uint64
}

const goldenGamma = 0x9E3779B97F4A7C15

func newPermutation(fingerprint string, seed int64, epoch, partition, size int) *permutation {
	sum := sha256.Sum256(fmt.Appendf(nil, "imgfeed plan v1\x00%s\x00%d\x00%d\x00%d", fingerprint, seed, epoch, partition))
	var words [4]uint64
	for i := range words {
		words[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	p := &permutation{size: uint64(size)}
	if size <= tableMax {
		p.table = shuffledTable(size, words[0], words[1])
		return p
	}
	n := uint(bits.Len64(p.size - 1))
	p.high, p.low = n/2, n-n/2
	for i := range p.keys {
		p.keys[i] = words[i%4] + uint64(i)*goldenGamma
	}
	return p
}

func shuffledTable(size int, seed1, seed2 uint64) []int32 {
	pcg := rand.NewPCG(seed1, seed2)
	table := make([]int32, size)
	for i := range table {
		table[i] = int32(i)
	}
	for i := size - 1; i > 0; i-- {
		// The high word of the product is uniform in [0, i], with a bias of 2^-54 or less.
		j, _ := bits.Mul64(pcg.Uint64(), uint64(i+1))
		table[i], table[j] = table[j], table[i]
	}
	return table
}

// at returns the image of j, 0 ≤ j < size.
func (p *permutation) at(j int) int {
	if p.table != nil {
		return int(p.table[j])
	}
	x := uint64(j)
	for {
		x = p.network(x)
		if x < p.size {
			return int(x)
		}
	}
}

// network is the Feistel network over high+low bits.
func (p *permutation) network(x uint64) uint64 {
	high, low := p.high, p.low
	for _, key := range p.keys {
		left, right := x>>low, x&(1<<low-1)
		left ^= mix64(right+key) >> (64 - high)
		x = right<<high | left
		high, low = low, high
	}
	return x
}

// mix64 is the finaliser of SplitMix64 (Steele, Lea and Flood 2014, variant 13 of Stafford).
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
