// Package registry lists the encodings and finds the one that a manifest or the command line names.
package registry

import (
	"fmt"
	"slices"
	"strings"

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

// Default returns the encoding for files if the user chooses no other.
func Default() encoding.Encoding {
	e, _ := methods[0].New(nil, false) // It needs no values.
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

// File returns the file that sample i of a set was made of, or the stored image if the encoding does not give files back.
func File(set *shard.Set, i int) ([]byte, error) {
	record, _, err := set.Read(i, nil)
	if err != nil {
		return nil, err
	}
	stored, err := Open(set.Manifest().Encoding)
	if err != nil {
		return record.Image, nil
	}
	file, err := stored.File(&record)
	if err != nil {
		return nil, set.Corrupt(i, err)
	}
	return file, nil
}

// Methods returns the encodings, the default one first.
func Methods() []*encoding.Method { return methods }

// Lossless returns the encoding for small images and for repacking.
func Lossless() *encoding.Method {
	return methods[slices.IndexFunc(methods, func(m *encoding.Method) bool { return m.Lossless })]
}

// Choose makes the encoding with a name and values of its options; without a name the default one, or for small images the lossless
// one. An option of another encoding is an error.
func Choose(name string, values map[string]string, small bool) (encoding.Encoding, error) {
	chosen := methods[0]
	if small {
		chosen = Lossless()
	}
	if name != "" {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("--encoding %s: want %s", name, strings.Join(Names(), ", "))
		}
		chosen = methods[i]
	}
	for _, m := range methods {
		var foreign []string
		for _, o := range m.Options {
			if values[o.Name] != "" && m != chosen {
				foreign = append(foreign, "--"+o.Name)
			}
		}
		if foreign != nil {
			return nil, fmt.Errorf("%s: for --encoding %s; %s stores %s", strings.Join(foreign, ", "), m.Name, chosen.Name, chosen.Summary)
		}
	}
	return chosen.New(values, small)
}

// Names lists the names of the encodings.
func Names() (list []string) {
	for _, m := range methods {
		list = append(list, m.Name)
	}
	return list
}
