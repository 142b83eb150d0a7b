// Package registry lists the encodings and finds the one that a manifest or the command line names.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/coefficients"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/encoding/pixels"
)

// methods is the list. The first is how files are stored unless somebody says otherwise.
var methods = []*encoding.Method{
	&original.Method,
	&coefficients.Method,
	&pixels.Method,
}

// lossless is how small images and those of a repacked set are stored, unless somebody says otherwise.
func lossless() *encoding.Method {
	return methods[slices.IndexFunc(methods, func(m *encoding.Method) bool { return m.Lossless })]
}

// Open returns the encoding of a set, as its manifest names it.
func Open(stored shard.Encoding) (encoding.Encoding, error) {
	for _, m := range methods {
		if m.OnDisk != stored.Name {
			continue
		}
		e, err := m.Parse(stored.Params)
		if err != nil {
			err = fmt.Errorf("the parameters of encoding %s: %w", stored, err)
		}
		return e, err
	}
	return nil, fmt.Errorf("unknown encoding %s; it needs a newer version of this program", stored)
}

// Named returns a manifest's encoding under the name that people know.
func Named(stored shard.Encoding) shard.Encoding {
	for _, m := range methods {
		if m.OnDisk == stored.Name {
			stored.Name = m.Name
			break
		}
	}
	return stored
}

// Default returns the encoding of files of which nobody says how they are stored.
func Default() encoding.Encoding {
	e, err := methods[0].Parse(nil)
	if err != nil {
		panic(err) // it has no parameters that must be given
	}
	return e
}

// Describe says in a few words how the images of a set are stored.
func Describe(stored shard.Encoding) string {
	e, err := Open(stored)
	if err != nil {
		return stored.Name
	}
	return e.String()
}

// Flags are the flags of the command line that say how images are stored.
type Flags struct {
	name    string
	choices []choice
}

type choice struct {
	*encoding.Method
	flags  *pflag.FlagSet
	encode func(ready bool) (encoding.Encoding, error)
}

// AddFlags defines --encoding and the flags of every encoding. repack says that the images are packed already, and are to be packed
// otherwise unless a flag says how.
func AddFlags(fs *pflag.FlagSet, repack bool) *Flags {
	f := new(Flags)
	preset, note := "", fmt.Sprintf(" (default %s; %s for small images, as CIFAR-10's)", methods[0].Name, lossless().Name)
	if repack {
		preset, note = lossless().Name, ""
	}
	fs.StringVar(&f.name, "encoding", preset, "how images are stored: "+names(func(m *encoding.Method) string { return m.Name + " (" + m.Summary + ")" })+note)
	for _, m := range methods {
		own := pflag.NewFlagSet(m.Name, pflag.ContinueOnError)
		f.choices = append(f.choices, choice{m, own, m.Flags(own)})
		own.VisitAll(func(flag *pflag.Flag) { flag.Usage = m.Name + ": " + flag.Usage })
		fs.AddFlagSet(own)
	}
	return f
}

// Chosen reports whether --encoding was given.
func (f *Flags) Chosen() bool { return f.name != "" }

// Check refuses what no source can be packed with: it needs none, whose images may be small ones.
func (f *Flags) Check() error {
	if f.Chosen() {
		_, err := f.Encoding(false)
		return err
	}
	for _, c := range f.choices {
		if _, err := c.encode(false); err != nil { // a wrong value of a flag, given for whatever the source will be packed as
			return err
		}
	}
	return nil
}

// Encoding returns what the flags ask for. small says that the source's images are small ones, whose pixels are best stored as they
// are: the default then.
func (f *Flags) Encoding(small bool) (encoding.Encoding, error) {
	name := f.name
	switch {
	case name == "" && small:
		name = lossless().Name
	case name == "":
		name = methods[0].Name
	}
	i := slices.IndexFunc(f.choices, func(c choice) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("--encoding %s: want %s", name, names(func(m *encoding.Method) string { return m.Name }))
	}
	chosen := f.choices[i]
	for _, c := range f.choices {
		var foreign []string
		c.flags.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed && c.Name != name {
				foreign = append(foreign, "--"+flag.Name)
			}
		})
		if foreign != nil {
			return nil, fmt.Errorf("%s: for --encoding %s; %s stores %s", strings.Join(foreign, ", "), c.Name, name, chosen.Summary)
		}
	}
	return chosen.encode(small)
}

// Names lists the names of the encodings.
func Names() (list []string) {
	for _, m := range methods {
		list = append(list, m.Name)
	}
	return list
}

// names lists the methods: "a, b or c".
func names(of func(*encoding.Method) string) string {
	var texts []string
	for _, m := range methods {
		texts = append(texts, of(m))
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}
