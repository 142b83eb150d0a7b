package server

import (
	"cmp"
	"slices"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// bucketsMax is how many buckets a session may have.
const bucketsMax = 1024

// sortBuckets returns buckets, height and width of the images in each, by aspect ratio. It refuses two of the same ratio, between
// which no image could choose.
func sortBuckets(buckets [][2]int) ([][2]int, error) {
	if len(buckets) > bucketsMax {
		return nil, badRequest("%d buckets, want %d at most", len(buckets), bucketsMax)
	}
	for _, b := range buckets {
		if min(b[0], b[1]) < 1 || max(b[0], b[1]) > transform.SizeMax {
			return nil, badRequest("buckets has %v, want height and width, 1 to %d", b, transform.SizeMax)
		}
	}
	sorted := slices.Clone(buckets)
	slices.SortFunc(sorted, func(a, b [2]int) int { return cmp.Compare(a[1]*b[0], b[1]*a[0]) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a[1]*b[0] == b[1]*a[0] {
			return nil, badRequest("buckets has %v and %v, which have the same aspect ratio: keep one of them", a, b)
		}
	}
	return sorted, nil
}

// bucketOf returns the index of the sorted bucket whose aspect ratio is nearest to an image's, by their logarithms, or the first of two
// that are equally near. The boundary between ratios a and b is √(a·b): it is compared squared, in products that every processor rounds
// alike.
func bucketOf(sorted [][2]int, width, height int32) int {
	w, h := float64(width), float64(height)
	k := 0
	for ; k+1 < len(sorted); k++ {
		a, b := sorted[k], sorted[k+1]
		if float64(w*w)*float64(a[0]*b[0]) <= float64(h*h)*float64(a[1]*b[1]) {
			break
		}
	}
	return k
}

// readBuckets makes the views of each bucket.
func (c *openConfig) readBuckets() (err error) {
	c.sized, c.buckets = nil, nil
	if len(c.Buckets) == 0 {
		return nil
	}
	if c.Size != 0 || c.Selects {
		return badRequest("buckets say which samples a batch holds, and their size: leave out selects and size")
	}
	if c.buckets, err = sortBuckets(c.Buckets); err != nil {
		return err
	}
	base := c.views
	for _, b := range c.buckets {
		views, err := base.Fitted(b[0], b[1])
		if err != nil {
			return err
		}
		c.sized = append(c.sized, views)
	}
	c.views = slices.MaxFunc(c.sized, func(a, b transform.Views) int { return cmp.Compare(a.OutputBytes(), b.OutputBytes()) })
	return nil
}

// selectBuckets makes the selection of the session's buckets, whose batches are of plan's size.
func (c *openConfig) selectBuckets() (err error) {
	if c.buckets == nil {
		return nil
	}
	of := make([]uint16, c.set.Len()) // the bucket of each sample, by the size of its stored image
	for i := range of {
		if !c.set.Has(i % c.set.Partitions()) {
			return badRequest("buckets need the size of every image, but the partition of sample %d is not here", i)
		}
		e, err := c.set.Entry(i)
		if err != nil {
			return err
		}
		of[i] = uint16(bucketOf(c.buckets, e.Width, e.Height))
	}
	c.plan.Selection, err = plan.NewSelection(plan.SelectionConfig{
		Samples: c.set.Len(), Buckets: &plan.Buckets{Of: of, BatchSize: c.plan.BatchSize, Full: c.plan.Policy == plan.DropLast},
	})
	return err
}

// positions returns the length of an epoch of buckets; 0 for a session without.
func (c *openConfig) positions() int64 {
	if c.buckets == nil {
		return 0
	}
	return int64(c.plan.Selection.Positions(c.plan.World))
}
