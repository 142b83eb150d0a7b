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
	Coarse []byte // of CIFAR-100
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

// CIFAR100Batches makes a batch for training and one for testing, of 300 and 40 random images, and the names of the classes, fine
// and coarse.
func CIFAR100Batches(seed uint64) (batches []CIFARBatch, fine, coarse []string) {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	for _, n := range []int{300, 40} {
		b := CIFARBatch{Labels: make([]byte, n), Coarse: make([]byte, n), Planes: make([]byte, n*3072)}
		rng.Read(b.Planes)
		for i := range n {
			b.Labels[i], b.Coarse[i] = byte(rng.Uint64()%100), byte(rng.Uint64()%20)
		}
		batches = append(batches, b)
	}
	for i := range 100 {
		fine = append(fine, fmt.Sprintf("fine_%02d", (i*37)%100)) // in no order of letters
	}
	for i := range 20 {
		coarse = append(coarse, fmt.Sprintf("coarse %02d", (i*7)%20))
	}
	return batches, fine, coarse
}

// CIFAR100Binary returns the files of the binary version.
func CIFAR100Binary(batches []CIFARBatch, fine, coarse []string) map[string][]byte {
	files := map[string][]byte{"fine_label_names.txt": []byte(strings.Join(fine, "\n") + "\n"),
		"coarse_label_names.txt": []byte(strings.Join(coarse, "\n") + "\n")}
	for i, name := range []string{"train.bin", "test.bin"} {
		b := batches[i]
		for k, label := range b.Labels {
			files[name] = append(append(files[name], b.Coarse[k], label), b.Planes[k*3072:][:3072]...)
		}
	}
	return files
}
