package sourcetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// CIFARClasses are the classes of CIFAR-10, in the order of their labels.
var CIFARClasses = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// CIFARBatch is what one file of CIFAR-10 holds.
type CIFARBatch struct {
	Labels []byte
	Coarse []byte // only CIFAR-100 has them
	Planes []byte // 3072 bytes for each image: red, green, blue
}

// CIFARBatches makes five batches for training and one for testing, of 3, 4, 5, 6, 7 and 8 random images.
func CIFARBatches(seed uint64) []CIFARBatch {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	var batches []CIFARBatch
	for n := range 6 {
		b := CIFARBatch{Labels: make([]byte, n+3), Planes: make([]byte, (n+3)*3072)}
		rng.Read(b.Planes)
		for i := range b.Labels {
			b.Labels[i] = byte(rng.Uint64() % 10)
		}
		batches = append(batches, b)
	}
	return batches
}

func cifarBatchName(i int) string {
	if i == 5 {
		return "test_batch"
	}
	return fmt.Sprintf("data_batch_%d", i+1)
}

// CIFARBinary returns the files of the binary version.
func CIFARBinary(batches []CIFARBatch) map[string][]byte {
	files := map[string][]byte{
		"batches.meta.txt": []byte(strings.Join(CIFARClasses, "\n") + "\n\n"),
		"readme.html":      []byte("<html>"),
	}
	for i, b := range batches {
		var data []byte
		for k, label := range b.Labels {
			data = append(append(data, label), b.Planes[k*3072:][:3072]...)
		}
		files[cifarBatchName(i)+".bin"] = data
	}
	return files
}
