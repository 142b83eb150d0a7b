package sourcetest

import (
	"bytes"
	"encoding/binary"
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

// CIFARPython returns the files of the Python version, opcode for opcode as Python 2's cPickle wrote those that are published.
func CIFARPython(batches []CIFARBatch) map[string][]byte {
	files := map[string][]byte{"readme.html": []byte("<html>")}
	for i, b := range batches {
		files[cifarBatchName(i)] = pickledBatch(b)
	}
	p := newPickler()
	p.op("}").put().op("(").text("num_cases_per_batch").put().number(10000).text("label_names").put().op("]").put().op("(")
	for _, name := range CIFARClasses {
		p.text(name).put()
	}
	files["batches.meta"] = p.op("e").text("num_vis").put().number(3072).op("u.").buf.Bytes()
	return files
}

func pickledBatch(b CIFARBatch) []byte {
	p := newPickler()
	p.op("}").put().op("(").text("batch_label").put().text("training batch 1 of 5").put()
	p.text("labels").put().op("]").put().op("(")
	for _, label := range b.Labels {
		p.number(int(label))
	}
	p.op("e").text("data").put()
	p.op("cnumpy.core.multiarray\n_reconstruct\n").put().op("cnumpy\nndarray\n").put()
	p.number(0).op("\x85").text("b").put().op("\x87R").put()
	p.op("(").number(1).number(len(b.Labels)).number(3072).op("\x86").op("cnumpy\ndtype\n").put().text("u1").number(0).number(1).op("\x87R").put()
	p.op("(").number(3).text("|").op("NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff").number(0).op("tb\x89").text(string(b.Planes)).op("tb")
	p.text("filenames").put().op("]").put().op("(")
	for i := range b.Labels {
		p.text(fmt.Sprintf("camion_s_%06d.png", i)).put()
	}
	return p.op("eu.").buf.Bytes()
}

// CIFAR100Batches makes a batch for training and one for testing, of 300 and 40 random images, and the names of the classes, fine and coarse.
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
	files := map[string][]byte{"fine_label_names.txt": []byte(strings.Join(fine, "\n") + "\n"), "coarse_label_names.txt": []byte(strings.Join(coarse, "\n") + "\n")}
	for i, name := range []string{"train.bin", "test.bin"} {
		b := batches[i]
		for k, label := range b.Labels {
			files[name] = append(append(files[name], b.Coarse[k], label), b.Planes[k*3072:][:3072]...)
		}
	}
	return files
}

// pickler writes the opcodes of pickle protocol 2.
type pickler struct {
	buf  bytes.Buffer
	puts int
}

func newPickler() *pickler {
	p := new(pickler)
	return p.op("\x80\x02")
}

func (p *pickler) op(text string) *pickler {
	p.buf.WriteString(text)
	return p
}

// put stores the uppermost value in the next place of the memo, from 1 as cPickle does.
func (p *pickler) put() *pickler {
	if p.puts++; p.puts < 256 {
		p.buf.Write([]byte{'q', byte(p.puts)})
		return p
	}
	p.buf.WriteByte('r')
	p.buf.Write(binary.LittleEndian.AppendUint32(nil, uint32(p.puts)))
	return p
}

func (p *pickler) number(n int) *pickler {
	if n < 256 {
		p.buf.Write([]byte{'K', byte(n)})
		return p
	}
	p.buf.WriteByte('M')
	p.buf.Write(binary.LittleEndian.AppendUint16(nil, uint16(n)))
	return p
}

func (p *pickler) text(s string) *pickler {
	if len(s) < 256 {
		p.buf.Write([]byte{'U', byte(len(s))})
	} else {
		p.buf.WriteByte('T')
		p.buf.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	}
	p.buf.WriteString(s)
	return p
}
