// Package wordnet names the 1,000 classes of ILSVRC2012: their identifiers in WordNet 3.0, and its words for them.
package wordnet

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// ilsvrc2012 begins with WordNet's licence, which allows copies of the words that include it. Then it has one class per line.
//
//go:embed ilsvrc2012.txt
var ilsvrc2012 string

// classes returns the wnids in sorted order, and the words of each.
var classes = sync.OnceValues(func() (wnids []string, words map[string]string) {
	_, text, _ := strings.Cut(ilsvrc2012, "\n----\n")
	words = make(map[string]string, 1000)
	for line := range strings.Lines(text) {
		wnid, its, _ := strings.Cut(strings.TrimSpace(line), " ")
		wnids = append(wnids, wnid)
		words[wnid] = its
	}
	if len(words) != 1000 {
		panic(fmt.Sprintf("wordnet: words of %d classes", len(words)))
	}
	return wnids, words
})

// Wnids returns the wnids of ILSVRC2012's classes in sorted order: the index is the label. The caller must not change them.
func Wnids() []string {
	wnids, _ := classes()
	return wnids
}

// Words returns WordNet's words for a class of ILSVRC2012 by its wnid: "tench, Tinca tinca" for n01440764; "" for other classes.
func Words(class string) string {
	_, words := classes()
	return words[class]
}
