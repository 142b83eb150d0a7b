package transform

import (
	"errors"
	"image"
	"math"
	"slices"

	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// A BoxFormat says what the four numbers of a box are: torchvision's BoundingBoxFormat, without rotated boxes.
type BoxFormat uint8

const (
	XYXY   BoxFormat = iota // left, top, right and bottom edge
	XYWH                    // left and top edge, width, height
	CXCYWH                  // centre, width, height
)

var boxFormats = []string{XYXY: "xyxy", XYWH: "xywh", CXCYWH: "cxcywh"}

// String returns torchvision's name of the format in lower case.
func (f BoxFormat) String() string { return boxFormats[f] }

// ParseBoxFormat returns the format of this name.
func ParseBoxFormat(name string) (BoxFormat, bool) {
	i := slices.Index(boxFormats, name)
	return BoxFormat(max(i, 0)), i >= 0
}

// CheckTargets returns a [*SpecError] if the transform cannot be done to images with these targets.
func (v Views) CheckTargets(boxes, mask bool) error {
	if len(v) > 1 && (boxes || mask) {
		return specError("boxes and masks follow one view of an image, and the transform makes %d", len(v))
	}
	return checkTargets(v[0].ops, boxes, mask)
}

func checkTargets(ops []Op, boxes, mask bool) error {
	for i, op := range ops {
		reason := ""
		if f, ok := op.(fixture); ok && (boxes || mask) {
			reason = f.fixed(boxes)
		}
		if _, ok := op.(RandomIoUCrop); ok && !boxes {
			reason = "it needs boxes, and the images have none that the loader was asked for (boxes=)"
		}
		if reason != "" {
			return opError(i, NameOf(op), errors.New(reason))
		}
		if err := checkTargets(heldBy(op), boxes, mask); err != nil {
			return opError(i, NameOf(op), err)
		}
	}
	return nil
}

func heldBy(op Op) []Op {
	switch o := op.(type) {
	case RandomApply:
		return o.Transforms
	case RandomChoice:
		return o.Transforms
	case RandomOrder:
		return o.Transforms
	}
	return nil
}

// Why operations cannot move targets.
const (
	fixedPolicy = "torchvision's policies move the image without its boxes and masks; take RandomPhotometricDistort or " +
		"ColorJitter for its colours"
	fixedExpand  = "with expand the boxes would lie up to 1.5 pixels beside the image; leave expand out"
	fixedPadding = "boxes take a padding_mode of constant only, as in torchvision"
)

func (AutoAugment) fixed(bool) string        { return fixedPolicy }
func (RandAugment) fixed(bool) string        { return fixedPolicy }
func (TrivialAugmentWide) fixed(bool) string { return fixedPolicy }
func (AugMix) fixed(bool) string             { return fixedPolicy }
func (TimmAugment) fixed(bool) string        { return fixedPolicy }

func (o RandomRotation) fixed(bool) string {
	if o.Expand {
		return fixedExpand
	}
	return ""
}

func (o Pad) fixed(boxes bool) string        { return fixedMode(o.Mode, boxes) }
func (o RandomCrop) fixed(boxes bool) string { return fixedMode(o.Mode, boxes) }

func fixedMode(mode PaddingMode, boxes bool) string {
	if boxes && mode != Constant {
		return fixedPadding
	}
	return ""
}

// Targets are what follows an image: boxes, and a mask with a label for each pixel. The canvas moves them by the steps that it moves the
// image by. Boxes get the bits of torchvision.transforms.v2 on float32 BoundingBoxes, and masks those on a uint8 Mask.
//
// An engine changes Boxes and Kept in place and keeps its own memory in the Targets, so the same value serves one image after the
// other, and allocates nothing in the steady state.
type Targets struct {
	// Boxes are four numbers a box: XYXY in pixels of the stored image before, and Format in pixels of the result after Apply.
	Boxes []float32
	// Format is that of the finished boxes. With Fraction their numbers are shares of the result's width and height.
	Format   BoxFormat
	Fraction bool
	// Kept is set by Apply: for each of the finished boxes its number among the given ones.
	Kept []int32

	// Mask has the labels of the stored image's pixels, row by row; nil if there is no mask.
	Mask []byte
	// MaskTo receives the labels of the result's pixels.
	MaskTo []byte

	width, height int       // size of the image as the operations so far have left it
	format        BoxFormat // format of Boxes now
	mask          maskSteps
	marked        []bool
}

// begin starts on an image of w × h pixels.
func (t *Targets) begin(w, h int) {
	t.width, t.height, t.format = w, h, XYXY
	t.Kept = t.Kept[:0]
	for i := range len(t.Boxes) / 4 {
		t.Kept = append(t.Kept, int32(i))
	}
	t.mask.begin(t.Mask, w, h)
}

// finish converts the boxes and writes the mask.
func (t *Targets) finish() {
	t.convert(t.Format)
	for i := 0; t.Fraction && i < len(t.Boxes); i += 2 {
		t.Boxes[i], t.Boxes[i+1] = t.Boxes[i]/float32(t.width), t.Boxes[i+1]/float32(t.height)
	}
	if t.Mask != nil {
		t.mask.write(t.MaskTo)
	}
}

// crop cuts r out of the image. Pixels of the mask outside the image get label 0.
func (t *Targets) crop(r image.Rectangle) {
	t.move(-float32(r.Min.X), -float32(r.Min.Y), r.Dx(), r.Dy())
	t.mask.window(r, 0)
}

// centerCrop is crop for the middle of the image. Where the image is smaller, torchvision rounds the boxes' offset by another rule
// than the image's, so they may be off by one pixel.
func (t *Targets) centerCrop(r image.Rectangle) {
	left, top := roundToInt(float64(t.width-r.Dx())/2), roundToInt(float64(t.height-r.Dy())/2)
	t.move(-float32(left), -float32(top), r.Dx(), r.Dy())
	t.mask.window(r, 0)
}

// pad puts a border of left, top, right and bottom pixels around the image. In the mask it has the label, or what another mode than
// Constant shows.
func (t *Targets) pad(border [4]int, mode PaddingMode, label byte) {
	w, h := t.width+border[0]+border[2], t.height+border[1]+border[3]
	t.mask.pad(border, mode, label)
	t.move(float32(border[0]), float32(border[1]), w, h)
}

// move shifts the boxes, and clamps them to the new image of w × h pixels.
func (t *Targets) move(dx, dy float32, w, h int) {
	for b := t.Boxes; len(b) > 0; b = b[4:] {
		// A difference, as −0 − 0 is −0, and −0 + 0 is 0.
		b[0], b[1] = b[0]+dx, b[1]+dy
		if t.format == XYXY {
			b[2], b[3] = b[2]+dx, b[3]+dy
		}
	}
	t.width, t.height = w, h
	t.clamp()
}

// resize resizes the image to w × h pixels. Boxes are not clamped.
func (t *Targets) resize(w, h int) {
	if w == t.width && h == t.height {
		return
	}
	t.scale(float64(w)/float64(t.width), float64(h)/float64(t.height))
	t.mask.resize(w, h)
	t.width, t.height = w, h
}

// scale multiplies the boxes by factors, which torchvision divides in double precision and rounds to float32.
func (t *Targets) scale(x, y float64) {
	fx, fy := float32(x), float32(y)
	for i := 0; i+1 < len(t.Boxes); i += 2 {
		t.Boxes[i], t.Boxes[i+1] = t.Boxes[i]*fx, t.Boxes[i+1]*fy
	}
}

// flip mirrors the image left to right, or with vertical top to bottom.
func (t *Targets) flip(vertical bool) {
	n, i := float32(t.width), 0
	if vertical {
		n, i = float32(t.height), 1
	}
	for b := t.Boxes; len(b) > 0; b = b[4:] {
		switch t.format { // Differences with their sign changed, so that an edge at the border gives −0, as torchvision does.
		case XYXY:
			b[i], b[i+2] = -(b[i+2] - n), -(b[i] - n)
		case XYWH:
			b[i] = -(float32(b[i]+b[i+2]) - n)
		case CXCYWH:
			b[i] = -(b[i] - n)
		}
	}
	t.mask.flip(vertical)
}

// clamp bounds the boxes by the image.
func (t *Targets) clamp() {
	format := t.format
	t.convertBy(XYXY)
	for i, limit := range [2]float32{float32(t.width), float32(t.height)} {
		for b := t.Boxes; len(b) > 0; b = b[4:] {
			for _, k := range [2]int{i, i + 2} { // comparisons leave −0 and NaN as they are
				if b[k] < 0 {
					b[k] = 0
				} else if b[k] > limit {
					b[k] = limit
				}
			}
		}
	}
	t.convertBy(format)
}

// convert changes the format of the boxes. Between XYWH and CXCYWH width and height stay as they are.
func (t *Targets) convert(to BoxFormat) {
	if t.format == XYXY || to == XYXY {
		t.convertBy(to)
		return
	}
	if to != t.format {
		for b := t.Boxes; len(b) > 0; b = b[4:] {
			if to == CXCYWH {
				b[0], b[1] = b[0]+b[2]/2, b[1]+b[3]/2
			} else {
				b[0], b[1] = b[0]-b[2]/2, b[1]-b[3]/2
			}
		}
	}
	t.format = to
}

// convertBy converts between XYXY and another format, in torchvision's order of operations.
func (t *Targets) convertBy(to BoxFormat) {
	for b := t.Boxes; t.format != to && len(b) > 0; b = b[4:] {
		switch {
		case t.format == XYWH:
			b[2], b[3] = b[2]+b[0], b[3]+b[1]
		case t.format == CXCYWH:
			b[0], b[1] = b[0]-b[2]/2, b[1]-b[3]/2
			b[2], b[3] = b[2]+b[0], b[3]+b[1]
		default:
			b[2], b[3] = b[2]-b[0], b[3]-b[1]
			if to == CXCYWH {
				b[0], b[1] = (float32(b[0]*2)+b[2])/2, (float32(b[1]*2)+b[3])/2
			}
		}
	}
	t.format = to
}

// overlaps reports whether the boxes with their centre in a part of the image overlap it by a share of their union, one at least.
func (t *Targets) overlaps(part image.Rectangle, share float32) bool {
	found, most := false, float32(0)
	left, top, right, bottom := edges(part)
	for i := range len(t.Boxes) / 4 {
		b := t.corners(i)
		if !centred(b, part) {
			continue
		}
		w, h := max(min(b[2], right)-max(b[0], left), 0), max(min(b[3], bottom)-max(b[1], top), 0)
		both := float32(w * h)
		union := float32((b[2]-b[0])*(b[3]-b[1])) + float32((right-left)*(bottom-top)) - both
		most, found = max(most, both/union), true
	}
	return found && !(most < share)
}

func edges(r image.Rectangle) (left, top, right, bottom float32) {
	return float32(r.Min.X), float32(r.Min.Y), float32(r.Max.X), float32(r.Max.Y)
}

// corners returns box i as XYXY.
func (t *Targets) corners(i int) [4]float32 {
	b := [4]float32(t.Boxes[4*i:])
	one := Targets{Boxes: b[:], format: t.format}
	one.convertBy(XYXY)
	return b
}

// centred reports whether the centre of a box, given as XYXY, is inside a part of the image.
func centred(b [4]float32, part image.Rectangle) bool {
	x, y := 0.5*(b[0]+b[2]), 0.5*(b[1]+b[3])
	left, top, right, bottom := edges(part)
	return left < x && x < right && top < y && y < bottom
}

// cropCentred is crop; boxes without their centre in r become 0, 0, 0, 0.
func (t *Targets) cropCentred(r image.Rectangle) {
	t.marked = t.marked[:0]
	for i := range len(t.Boxes) / 4 {
		t.marked = append(t.marked, !centred(t.corners(i), r))
	}
	t.crop(r)
	for i, outside := range t.marked {
		if outside {
			clear(t.Boxes[4*i : 4*i+4])
		}
	}
}

// sanitize drops boxes that are too small or reach out of the image.
func (t *Targets) sanitize(minSize, minArea float32) {
	n, right, bottom := 0, float32(t.width), float32(t.height)
	for i, row := range t.Kept {
		b := t.corners(i)
		w, h := b[2]-b[0], b[3]-b[1]
		if w >= minSize && h >= minSize && w*h >= minArea && b[0] >= 0 && b[1] >= 0 && b[2] >= 0 && b[3] >= 0 &&
			b[0] <= right && b[2] <= right && b[1] <= bottom && b[3] <= bottom {
			copy(t.Boxes[4*n:4*n+4], t.Boxes[4*i:])
			t.Kept[n] = row
			n++
		}
	}
	t.Boxes, t.Kept = t.Boxes[:4*n], t.Kept[:n]
}

// affine is torchvision's affine of boxes and masks.
func (t *Targets) affine(p affineParams, label byte) {
	t.mask.affine(p.inverse(fromMiddle(p.center, t.width, t.height)), label)
	t.mapBoxes(p.forward(orMiddle(p.center, t.width, t.height)))
}

// rotate is torchvision's rotate, counterclockwise by an angle in degrees. It turns masks by whole quarters where they fit.
func (t *Targets) rotate(angle float64, center *[2]float64, label byte) {
	quarter := math.Mod(angle, 360)
	if quarter < 0 {
		quarter += 360
	}
	if center == nil && (quarter == 0 || quarter == 180 || t.width == t.height && (quarter == 90 || quarter == 270)) {
		t.mask.turn(int(quarter) / 90)
	} else {
		turn := affineParams{angle: -quarter, scale: 1}
		t.mask.affine(turn.inverse(fromMiddle(center, t.width, t.height)), label)
	}
	turn := affineParams{angle: -angle, scale: 1}
	t.mapBoxes(turn.forward(orMiddle(center, t.width, t.height)))
}

// mapBoxes moves the corners of the boxes by a matrix, in float32, and takes the smallest box around them.
func (t *Targets) mapBoxes(matrix affine.Matrix) {
	format := t.format
	t.convertBy(XYXY)
	var m [6]float32
	for i, v := range matrix {
		m[i] = float32(v)
	}
	for b := t.Boxes; len(b) > 0; b = b[4:] {
		var hull [4]float32
		for k, corner := range [4][2]float32{{b[0], b[1]}, {b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]}} {
			for i := range 2 { // a sum in this order, without fused multiply-adds
				v := float32(float32(corner[0]*m[3*i])+float32(corner[1]*m[3*i+1])) + m[3*i+2]
				if k == 0 {
					hull[i], hull[i+2] = v, v
				}
				hull[i], hull[i+2] = min(hull[i], v), max(hull[i+2], v)
			}
		}
		copy(b, hull[:])
	}
	t.clamp()
	t.convertBy(format)
}
