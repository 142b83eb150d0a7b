package pack

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// A Reason is why images were left out or repaired: how many, and one of them.
type Reason struct {
	Reason  string `json:"reason"` // where it is several images', numbers in it stand as N
	Samples int    `json:"samples"`
	Example string `json:"example"` // the key of the first

	first string // its reason, with its numbers
}

// Reasons counts images by reason.
type Reasons struct{ byReason map[string]*Reason }

var numbers = regexp.MustCompile(`\d+`)

// Add counts an image. Reasons that differ in numbers only (offsets, sizes) are one.
func (r *Reasons) Add(key, first string) {
	reason := numbers.ReplaceAllString(first, "N")
	if r.byReason == nil {
		r.byReason = map[string]*Reason{}
	}
	c := r.byReason[reason]
	if c == nil {
		c = &Reason{Reason: reason, Example: key, first: first}
		r.byReason[reason] = c
	}
	c.Samples++
}

// List returns the reasons, the commonest first.
func (r *Reasons) List() []Reason {
	list := make([]Reason, 0, len(r.byReason))
	for _, c := range r.byReason {
		one := *c
		if one.Samples == 1 {
			one.Reason = one.first
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Reason) int {
		return cmp.Or(b.Samples-a.Samples, strings.Compare(a.Reason, b.Reason))
	})
	return list
}
