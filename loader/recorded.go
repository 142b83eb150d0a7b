package loader

import (
	"fmt"

	"github.com/imgfeed/imgfeed/transform"
)

// Recorded does to one sample what a stream of a plan with this seed and epoch does to it, and returns what that was: a JSON list, see
// [transform.Engine.ApplyRecorded]. view is the number of the one of views that is meant, and repetition the sample's in the plan, 0 unless
// samples are repeated. It is for those who want to see or check single samples: the caller lends an engine, and the result's pixels are let go.
func Recorded(set Dataset, engine *transform.Engine, views transform.Views, seed int64, epoch, index, repetition, view int) (string, error) {
	record, _, err := set.Read(index, Access{})
	if err != nil {
		return "", fmt.Errorf("loader: sample %d: %w", index, err)
	}
	spec := views[view]
	dst := transform.Output{Pix: make([]byte, spec.OutputBytes())}
	_, done, err := engine.ApplyRecorded(spec, dst, sourceOf(set, &record), views.RNG(seed, epoch, index, repetition, view))
	if err != nil {
		return "", fmt.Errorf("loader: sample %d: %w", index, err)
	}
	return done, nil
}
