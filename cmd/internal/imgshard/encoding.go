package imgshard

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
)

// encodingFlags are the flags that choose how images are stored.
type encodingFlags struct {
	name   string
	values map[string]*string // of the encodings' options
}

// register adds --encoding, and a flag for each option of an encoding. repack chooses the lossless encoding by default.
func (f *encodingFlags) register(fl *pflag.FlagSet, repack bool) {
	defaults := fmt.Sprintf(" (default %s; %s for small images)", registry.Methods()[0].Name, registry.Lossless().Name)
	if repack {
		f.name, defaults = registry.Lossless().Name, ""
	}
	var choices []string
	f.values = map[string]*string{}
	for _, m := range registry.Methods() {
		choices = append(choices, m.Name+" ("+m.Summary+")")
		for _, o := range m.Options {
			f.values[o.Name] = fl.String(o.Name, "", m.Name+": "+o.Help)
		}
	}
	last := len(choices) - 1
	fl.StringVar(&f.name, "encoding", f.name, "how images are stored: "+strings.Join(choices[:last], ", ")+" or "+choices[last]+defaults)
}

// choose returns the encoding for a source with small images, or with others.
func (f *encodingFlags) choose(small bool) (encoding.Encoding, error) {
	values := map[string]string{}
	for name, value := range f.values {
		values[name] = *value
	}
	return registry.Choose(f.name, values, small)
}
