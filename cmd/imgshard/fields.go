package main

import (
	"strings"

	"github.com/imgfeed/imgfeed/internal/source"
)

// fieldFlags is the flag --field, which may be given several times.
type fieldFlags struct{ fields *[]source.Field }

func (f fieldFlags) String() string {
	var texts []string
	for _, one := range *f.fields {
		texts = append(texts, one.Name+"="+one.Source)
	}
	return strings.Join(texts, " ")
}

func (f fieldFlags) Set(text string) error {
	one, err := source.ParseField(text)
	if err == nil {
		*f.fields = append(*f.fields, one)
	}
	return err
}

func (f fieldFlags) Type() string { return "NAME=SOURCE[:TYPE]" }
