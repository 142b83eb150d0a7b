package source

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// ilsvrcWords begins with WordNet's licence, which allows it to be copied with it; then come the words of each of the 1,000 classes, one a line.
//
//go:embed ilsvrc2012-words.txt
var ilsvrcWords string

// words are those of ILSVRC2012's classes, by wnid.
var words = sync.OnceValue(func() map[string]string {
	_, text, _ := strings.Cut(ilsvrcWords, "\n----\n")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	classes := ilsvrcVal().classes
	if len(lines) != len(classes) {
		panic(fmt.Sprintf("source: words of %d classes", len(lines)))
	}
	byClass := make(map[string]string, len(classes))
	for i, wnid := range classes {
		byClass[wnid] = lines[i]
	}
	return byClass
})

// Words are those that WordNet has for a class of ILSVRC2012, by its wnid: "tench, Tinca tinca" for n01440764; "" for any other class.
func Words(class string) string { return words()[class] }
