package transform

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// croppedOps are what photographs are compared by after a RandomResizedCrop to the size of training and before a flip. They draw after the crop,
// which is the same for all of them, so that torchvision makes it once.
var croppedOps = []string{
	`{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}`, `{"op":"Grayscale","num_output_channels":3}`,
	`{"op":"RandomGrayscale","p":0.3}`, `{"op":"RandomInvert"}`, `{"op":"RandomPosterize","bits":2}`, `{"op":"RandomSolarize","threshold":130}`,
	`{"op":"RandomAdjustSharpness","sharpness_factor":2.3}`, `{"op":"RandomAutocontrast"}`, `{"op":"RandomEqualize"}`,
	`{"op":"RandomRotation","degrees":90}`, `{"op":"RandomRotation","degrees":180,"interpolation":"bilinear","fill":9}`,
	`{"op":"RandomRotation","degrees":[-30,60],"interpolation":"bicubic","center":[10,200]}`,
	`{"op":"RandomAffine","degrees":0,"translate":[0.3,0.3]}`,
	`{"op":"RandomAffine","degrees":[5,90],"scale":[0.4,2.5],"interpolation":"bilinear","fill":[3,200,90]}`,
	`{"op":"RandomAffine","degrees":30,"translate":[0.2,0.1],"scale":[0.6,1.7],"shear":[-20,20,-10,10],"interpolation":"bicubic"}`,
	`{"op":"RandomVerticalFlip"}`, `{"op":"PILGaussianBlur","p":1}`, `{"op":"PILGaussianBlur","radius":[2,9],"p":1}`,
	`{"op":"RandomCrop","size":224,"padding":[3,40,0,9],"fill":[1,2,3]}`, `{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"edge"}`,
	`{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"reflect"}`, `{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"symmetric"}`,
	`{"op":"Pad","padding":[3,40,0,9],"padding_mode":"reflect"},{"op":"CenterCrop","size":224}`,
	`{"op":"RandomApply","transforms":[{"op":"ColorJitter","brightness":0.8,"contrast":0.8,"saturation":0.8,"hue":0.2},{"op":"RandomInvert"}],"p":0.8}`,
	`{"op":"RandomChoice","transforms":[{"op":"RandomEqualize","p":1},{"op":"RandomSolarize","threshold":90,"p":1},{"op":"Grayscale","num_output_channels":3}],"p":[1,2,3]}`,
	`{"op":"RandomOrder","transforms":[{"op":"RandomPosterize","bits":4},{"op":"RandomAutocontrast"},{"op":"RandomAdjustSharpness","sharpness_factor":0.2}]}`,
	`{"op":"TrivialAugmentWide"}`, `{"op":"TrivialAugmentWide","interpolation":"bilinear","fill":[124,116,104]}`,
	`{"op":"RandAugment"}`, `{"op":"RandAugment","magnitude":15,"interpolation":"bilinear"}`, `{"op":"AutoAugment"}`,
	`{"op":"AutoAugment","policy":"cifar10"}`, `{"op":"AutoAugment","policy":"svhn","interpolation":"bilinear"}`, `{"op":"AugMix"}`,
	`{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1","fill":[124,116,104]}`, `{"op":"TimmAugment","config":"original-mstd0.5","interpolation":"bicubic"}`,
	`{"op":"TimmAugment","config":"v0"}`, `{"op":"TimmAugment","config":"augmix-m5-w4-d2"}`, `{"op":"TimmAugment","config":"3a"}`,
}

// otherSpecs are transforms of photographs without that crop; torchvision's blur takes long, and has a small one.
var otherSpecs = []string{
	`[{"op":"RandomResizedCrop","size":96},{"op":"GaussianBlur","kernel_size":[23,9]}]`,
	`[{"op":"RandomResizedCrop","size":[120,96],"interpolation":"lanczos"},{"op":"GaussianBlur","kernel_size":5,"sigma":[0.1,5]}]`,
	`[{"op":"Resize","size":200,"max_size":260},{"op":"RandomCrop","size":[180,200],"pad_if_needed":true}]`,
	`[{"op":"Resize","size":160,"interpolation":"bicubic"},{"op":"RandomRotation","degrees":180,"expand":true},{"op":"CenterCrop","size":[150,230]}]`,
	`[{"op":"Resize","size":256},{"op":"FiveCrop","size":224}]`, `[{"op":"Resize","size":150},{"op":"TenCrop","size":[120,101],"vertical_flip":true}]`,
	`[{"op":"RandomResizedCrop","size":120},{"op":"TenCrop","size":[90,101]}]`,
}

// A photographedView is a transform of photographs, with the view whose draws it has. Its first draw is at the size of training, and those after
// it are of smaller images, of which Pillow takes a fifth of the time.
type photographedView struct {
	name        string
	spec, small *Spec
	view        int
}

// smaller is the size in place of 224: no multiple of what vectors hold.
const smaller = "101"

// photographedViews are every operation, policy and preset; of a preset's views that are alike, the first.
func photographedViews(t *testing.T, algorithm Resampler) []photographedView {
	t.Helper()
	var list []photographedView
	for _, op := range croppedOps {
		spec := parseWith(`[{"op":"RandomResizedCrop","size":224},`+op+`,{"op":"RandomHorizontalFlip"}]`, algorithm)
		list = append(list, photographedView{name: op, spec: spec})
	}
	for _, text := range slices.Concat(otherSpecs, Presets(), ViewPresets()) {
		views := testenv.Must(ParseViews(text, algorithm))(t)
		for v, spec := range views {
			if v == 0 || spec != views[v-1] {
				list = append(list, photographedView{name: fmt.Sprintf("%s, view %d", text, v), spec: spec, view: v - spec.part})
			}
		}
	}
	for i := range list {
		small := mustParseViews(t, strings.ReplaceAll(list[i].spec.String(), "224", smaller))
		list[i].small = small[list[i].spec.part]
	}
	return list
}

// sendPhotographs sends transforms of the images in a folder. The first draw of an image is of its file, and those after it of its pixels, so
// that it is not decoded a thousand times.
func sendPhotographs(t *testing.T, w io.Writer, folder string, draws int, algorithm Resampler) {
	files := testenv.Must(filepath.Glob(filepath.Join(folder, "*.*")))(t)
	engine, views, stored := NewEngine(kernel.Active()), photographedViews(t, algorithm), &testEncoding{Codec: pixelcodec.None}
	for i, file := range files {
		src := Source{Image: testenv.Must(os.ReadFile(file))(t)}
		for d := range draws {
			for _, v := range views {
				spec := v.spec
				if d > 0 && !spec.Random() {
					continue
				}
				if d > 0 {
					spec = v.small
				}
				head := map[string]any{"file": file, "transform": v.name}
				sendRecord(t, w, engine, spec, src, NewViewRNG(1, d, i, 0, v.view), head, nil)
			}
			if d == 0 {
				pix, width, height := decoded(t, engine, src.Image)
				src = Source{Format: imagefile.Encoded, Image: encodePixels(t, stored, pix, width, height), Encoding: stored}
			}
		}
	}
}
