package transform

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// tensorSpecs are transforms of tensors, with sizes between 16 and 512, odd ones among them.
var tensorSpecs = []string{
	`[{"op":"Resize","size":256,"backend":"tensor"},{"op":"CenterCrop","size":224}]`,
	`[{"op":"Resize","size":[141,97],"backend":"tensor"}]`,
	`[{"op":"Resize","size":[17,512],"interpolation":"bicubic","backend":"tensor"}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":33,"max_size":61,"interpolation":"bicubic"},{"op":"CenterCrop","size":[40,31]}]`,
	`[{"op":"Resize","size":301,"interpolation":"bicubic"},{"op":"ToImage"},{"op":"CenterCrop","size":300},{"op":"Resize","size":[75,111]}]`,
	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[1,2],"backend":"tensor"}]`,
	`[{"op":"Resize","size":[91,67],"antialias":false,"backend":"tensor"},{"op":"CenterCrop","size":50}]`,
	`[{"op":"RandomResizedCrop","size":[32,67],"interpolation":"bicubic","antialias":false,"backend":"tensor"}]`,
	`[{"op":"RandomResizedCrop","size":[31,87],"interpolation":"nearest","backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[131,97],"interpolation":"nearest-exact","backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[30,43],"interpolation":"nearest-exact"}]`,
	`[{"op":"RandomResize","min_size":30,"max_size":60,"interpolation":"nearest-exact","backend":"tensor"},{"op":"CenterCrop","size":40}]`,
	`[{"op":"ScaleJitter","target_size":40,"interpolation":"nearest-exact"},{"op":"ToImage"},{"op":"RandomShortestSize","min_size":[45],"interpolation":"nearest-exact"},{"op":"CenterCrop","size":40}]`,
	`[{"op":"Resize","size":[3,1],"interpolation":"bicubic","backend":"tensor"}]`,
	`[{"op":"Resize","size":[90,40],"interpolation":"lanczos","backend":"tensor"}]`,
	`[{"op":"RandomResizedCrop","size":[37,95],"interpolation":"bicubic","backend":"tensor"},{"op":"RandomVerticalFlip"}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":40},{"op":"RandomCrop","size":64,"padding":[3,4],"fill":[1,2,3],"pad_if_needed":true},{"op":"Resize","size":[16,29]}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":48},{"op":"Pad","padding":9,"padding_mode":"reflect"},{"op":"RandomCrop","size":47},{"op":"Resize","size":[130,61]}]`,
	`[{"op":"Resize","size":150,"backend":"tensor"},{"op":"TenCrop","size":[120,101]}]`,

	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}]`,
	`[{"op":"RandomResizedCrop","size":[64,41],"backend":"tensor"},{"op":"ColorJitter","brightness":0.9,"contrast":0.9,"saturation":0.9,"hue":0.5}]`,
	`[{"op":"CenterCrop","size":[40,55],"backend":"tensor"},{"op":"ColorJitter","saturation":[0,3],"hue":[0.2,0.3]},{"op":"RandomGrayscale","p":0.5}]`,
	`[{"op":"ToImage"},{"op":"RandomApply","transforms":[{"op":"Grayscale","num_output_channels":3},{"op":"Resize","size":50}]},{"op":"CenterCrop","size":48}]`,
	`[{"op":"CenterCrop","size":33,"backend":"tensor"},{"op":"RandomAutocontrast","p":0.7},{"op":"RandomEqualize"},{"op":"RandomInvert"}]`,
	`[{"op":"Resize","size":[65,30],"backend":"tensor"},{"op":"RandomAdjustSharpness","sharpness_factor":2.3},{"op":"RandomPosterize","bits":3}]`,
	`[{"op":"Resize","size":[2,30],"backend":"tensor"},{"op":"RandomAdjustSharpness","sharpness_factor":0.1,"p":1},{"op":"RandomSolarize","threshold":99.5}]`,
	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"RandomRotation","degrees":180}]`,
	`[{"op":"RandomResizedCrop","size":[99,130],"backend":"tensor"},{"op":"RandomRotation","degrees":180,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":[37,51],"backend":"tensor"},{"op":"RandomRotation","degrees":[-30,60],"interpolation":"bilinear","center":[10,200],"fill":[3,200,90]}]`,
	`[{"op":"CenterCrop","size":[37,51],"backend":"tensor"},{"op":"RandomRotation","degrees":180,"expand":true,"fill":9},{"op":"CenterCrop","size":60}]`,
	`[{"op":"Resize","size":44,"backend":"tensor"},{"op":"RandomRotation","degrees":45,"expand":true,"interpolation":"bilinear"},{"op":"CenterCrop","size":60}]`,
	`[{"op":"CenterCrop","size":33,"backend":"tensor"},{"op":"RandomChoice","transforms":[{"op":"RandomRotation","degrees":[90,90]},{"op":"RandomRotation","degrees":[180,180]},{"op":"RandomRotation","degrees":[-90,-90],"interpolation":"bilinear"}]}]`,
	`[{"op":"CenterCrop","size":[30,41],"backend":"tensor"},{"op":"RandomRotation","degrees":[90,90]},{"op":"RandomRotation","degrees":[180,180],"interpolation":"bilinear"}]`,
	`[{"op":"RandomResizedCrop","size":[50,61],"backend":"tensor"},{"op":"RandomAffine","degrees":0,"translate":[0.3,0.3]}]`,
	`[{"op":"RandomResizedCrop","size":101,"backend":"tensor"},{"op":"RandomAffine","degrees":30,"translate":[0.2,0.1],"scale":[0.6,1.7],"shear":[-20,20,-10,10],"interpolation":"bilinear"}]`,
	`[{"op":"Resize","size":[224,224],"backend":"tensor"},{"op":"RandAugment","num_ops":3,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":20,"backend":"tensor"},{"op":"RandomAffine","degrees":[5,90],"scale":[0.01,9],"fill":[3,200,90],"center":[3,4]}]`,
	`[{"op":"Resize","size":[1,37],"backend":"tensor"},{"op":"RandomAffine","degrees":10,"interpolation":"bilinear","fill":7},{"op":"RandomRotation","degrees":90}]`,
	`[{"op":"RandomResizedCrop","size":64,"backend":"tensor"},{"op":"TrivialAugmentWide"}]`,
	`[{"op":"RandomResizedCrop","size":[64,96],"backend":"tensor"},{"op":"TrivialAugmentWide","interpolation":"bilinear","fill":[124,116,104]}]`,
	`[{"op":"CenterCrop","size":[40,48],"backend":"tensor"},{"op":"RandAugment","num_ops":4,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":[40,48],"backend":"tensor"},{"op":"RandAugment","num_ops":3,"magnitude":14,"fill":128},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"CenterCrop","size":32,"backend":"tensor"},{"op":"AutoAugment"},{"op":"AutoAugment","policy":"svhn"}]`,
	`[{"op":"CenterCrop","size":32,"backend":"tensor"},{"op":"AutoAugment","policy":"cifar10","interpolation":"bilinear","fill":7}]`,
	`[{"op":"CenterCrop","size":[32,31],"backend":"tensor"},{"op":"AugMix"}]`,
	`[{"op":"CenterCrop","size":[16,30],"backend":"tensor"},{"op":"AugMix","severity":10,"mixture_width":2,"alpha":0.3,"all_ops":false,"interpolation":"nearest"}]`,
	`[{"op":"ColorJitter","hue":0.5},{"op":"ToImage"},{"op":"ColorJitter","hue":0.5},{"op":"RandomHorizontalFlip"},{"op":"CenterCrop","size":60}]`,
}

// TestBackends: "backend" puts a ToImage where the image becomes a tensor, and what torchvision cannot do there is refused.
func TestBackends(t *testing.T) {
	for text, want := range map[string]string{
		`[{"op":"CenterCrop","size":5,"backend":"pil"},{"op":"RandomInvert","backend":"tensor"}]`:                                               `[CenterCrop ToImage RandomInvert]`,
		`[{"op":"CenterCrop","size":5,"backend":"tensor"},{"op":"RandomInvert","backend":"tensor"}]`:                                            `[ToImage CenterCrop RandomInvert]`,
		`[{"op":"ToImage","backend":"tensor"},{"op":"CenterCrop","size":5}]`:                                                                    `[ToImage CenterCrop]`,
		`[{"op":"CenterCrop","size":5,"backend":"tensor"},{"op":"RandomInvert","backend":"pil"}]`:                                               `operation 1 (RandomInvert): backend is "pil"`,
		`[{"op":"ToImage"},{"op":"CenterCrop","size":5},{"op":"RandomApply","transforms":[{"op":"RandomInvert","backend":"pil"}]}]`:             `backend is "pil"`,
		`[{"op":"CenterCrop","size":5,"backend":"gpu"}]`:                                                                                        `backend is "gpu", want "pil" or "tensor"`,
		`[{"op":"Resize","size":[5,5],"interpolation":"box","backend":"tensor"}]`:                                                               `Resize does not take tensors with the interpolation box`,
		`[{"op":"CenterCrop","size":5},{"op":"ToImage"},{"op":"RandomRotation","degrees":9,"interpolation":"bicubic"}]`:                         `RandomRotation does not take tensors`,
		`[{"op":"CenterCrop","size":5},{"op":"ToImage"},{"op":"RandomApply","transforms":[{"op":"TimmAugment","config":"3a"}]}]`:                `TimmAugment for images of Pillow only`,
		`[{"op":"Resize","size":[5,5],"antialias":false},{"op":"ToImage"}]`:                                                                     `images of Pillow are always antialiased`,
		`[{"op":"ToImage"},{"op":"CenterCrop","size":5},{"op":"RandomApply","transforms":[{"op":"GaussianBlur","kernel_size":3}]}]`:             `GaussianBlur on tensors (`,
		`[{"op":"ToImage","v1":true},{"op":"Resize","size":[5,5]},{"op":"RandomInvert"}]`:                                                       `Resize on tensors of v1 (`,
		`[{"op":"Resize","size":[5,5]},{"op":"AugMix"}]`:                                                                                        `AugMix on images of Pillow (`,
		`[{"op":"ToImage"},{"op":"Resize","size":[5,5],"antialias":false},{"op":"RandAugment"},{"op":"AugMix"},{"op":"ColorJitter","hue":0.1}]`: `[ToImage Resize RandAugment AugMix ColorJitter]`,
	} {
		spec, err := Parse(text)
		said := fmt.Sprint(err)
		if err == nil {
			var names []string
			for _, op := range spec.Ops() {
				names = append(names, NameOf(op))
			}
			if said = spec.Inexact(); said == "" {
				said = fmt.Sprint(names)
			}
			readsBack(t, Views{spec})
		}
		testenv.Contains(t, said, want)
	}
}

// TestTensorRecordsAreTorchvisions has torchvision repeat records of tensors. Every level of the kernels must give the same. It
// takes the images of the folder IMGFEED_TEST_IMAGES, or makes them.
func TestTensorRecordsAreTorchvisions(t *testing.T) {
	var result judged
	if judgeBy(t, "records", "tensors", &result, func(w io.Writer, _ Resampler) {
		if folder := liveOnly("IMGFEED_TEST_IMAGES"); folder != "" {
			for i, file := range testenv.Must(filepath.Glob(filepath.Join(folder, "*.*")))(t) {
				sendTensors(t, w, Source{Image: testenv.Must(os.ReadFile(file))(t)}, i, map[string]any{"file": file}, nil)
			}
			return
		}
		for s, size := range [][2]int{{61, 47}, {33, 150}, {515, 389}} {
			pix := randomImage(size[0], size[1], uint64(s))
			src, head := Source{Image: encodePNG(t, pix, size[0], size[1])}, map[string]any{"width": size[0], "height": size[1]}
			sendTensors(t, w, src, s, head, pix)
		}
	}) {
		result.check(t)
	}
}

// sendTensors sends the transforms of an image, and compares the levels of the kernels.
func sendTensors(t *testing.T, w io.Writer, src Source, index int, head map[string]any, pix []byte) {
	levels := kernel.Available()
	for _, text := range tensorSpecs {
		spec := mustParseViews(t, text)[0]
		for d := range drawsAsked(2) {
			made := make([][]byte, len(levels))
			for i, level := range levels {
				made[i] = make([]byte, spec.OutputBytes())
				if _, err := NewEngine(level).Apply(spec, Output{Pix: made[i]}, src, NewRNG(1, d, index)); err != nil {
					made[i] = nil
				} else if !bytes.Equal(made[i], made[0]) {
					t.Fatalf("%s: %v and %v differ", text, level, levels[0])
				}
			}
			head["transform"] = text
			sendRecord(t, w, NewEngine(levels[0]), spec, src, NewRNG(1, d, index), head, pix)
		}
	}
}
