package source

import (
	"fmt"
	"image"
	"image/color"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// xmlOf is the XML of an image of 60 × 40 pixels with objects: name, difficult, four edges.
func xmlOf(objects ...string) []byte {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotation><folder>x</folder><size><width>60</width><height>40</height><depth>3</depth></size>")
	for _, one := range objects {
		var name string
		var difficult int
		var box [4]string
		fmt.Sscan(one, &name, &difficult, &box[0], &box[1], &box[2], &box[3])
		fmt.Fprintf(&b, "<object><name>%s</name><difficult>%d</difficult><truncated>1</truncated><bndbox><xmin>%s</xmin><ymin>%s</ymin><xmax>%s</xmax><ymax>%s</ymax></bndbox>"+
			"<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>", name, difficult, box[0], box[1], box[2], box[3])
	}
	return []byte(b.String() + "</annotation>")
}

// pairTree is a tree of images of 3 × 2 pixels and of these files.
func pairTree(t *testing.T, files map[string][]byte, images ...string) string {
	t.Helper()
	tree := maps.Clone(files)
	for _, name := range images {
		tree[name] = jpegOf(t, 3, 2)
	}
	return lay(t, tree)
}

// Masks are the indices of palettes, in any of the usual layouts.
func TestMasks(t *testing.T) {
	m, want := maskOf(t, 3, 2), map[string]string{"a.jpg": "mask [0 1 2 3 4 5]"}
	for name, c := range map[string]struct {
		mask, image string
		splits      int
	}{
		"ADE20K":          {"annotations/training/a.png", "images/training/a.jpg", 1},
		"masks":           {"masks/train/a.png", "images/train/a.jpg", 1},
		"labels, capital": {"Labels/train/a.png", "Images/train/a.jpg", 1},
		"no splits":       {"masks/a.png", "images/a.jpg", 1},
		"ends in _mask":   {"masks/a_mask.png", "imgs/a.jpg", 1},
		"split first":     {"train/masks/a.png", "train/images/a.jpg", 2},
		"with a year":     {"annotations/train2017/a.png", "images/train2017/a.jpg", 1},
	} {
		files := map[string][]byte{c.mask: m}
		images := []string{c.image}
		if c.splits == 2 {
			files["val/masks/a.png"], images = m, append(images, "val/images/a.jpg")
		}
		got, _ := mustTargets(t, c.splits, pairTree(t, files, images...), dataset.Options{})
		same(t, name, got["train"], want)
	}
}

// Test images need no targets, images of other splits do. Masks that are called otherwise are no classes, and no images without labels.
func TestPairsWithoutTargets(t *testing.T) {
	m := maskOf(t, 3, 2)
	root := pairTree(t, map[string][]byte{"masks/train/a.png": m, "masks/val/a.png": m}, "images/train/a.jpg", "images/val/a.jpg", "images/test/a.jpg")
	for o, want := range map[*dataset.Options][]string{{}: {"train", "val"}, {Test: true}: {"test", "train", "val"}, {NoLabels: true}: {"test", "train", "val"}} {
		got, splits, err := targetsOf(t, root, *o)
		testenv.Require(t, err == nil && slices.Equal(slices.Sorted(maps.Keys(got)), want), "%v %v", got, err)
		notes := strings.Join(splits[0].Notes(), "\n")
		testenv.Check(t, strings.Contains(notes, "the test images have no masks or boxes and are left out") == (len(want) == 2), "%v", notes)
		testenv.Check(t, !o.Test || len(splits[len(splits)-1].Fields()) == 0, "%v", splits)
	}
	refused(t, pairTree(t, map[string][]byte{"masks/train/a.png": m}, "images/train/a.jpg", "images/val/a.jpg"), dataset.Options{},
		"val: its images have no masks or boxes, and those of another split have")
	for _, mask := range []string{"masks/a_mask.gif", "masks/a_seg.png", "masks/a.jpg"} {
		root := pairTree(t, map[string][]byte{mask: m}, "images/a.jpg")
		refused(t, root, dataset.Options{}, "masks/ has no file for a.jpg in images/")
		refused(t, root, dataset.Options{NoLabels: true}, "holds masks beside images (masks), and this would join them")
	}
	refused(t, pairTree(t, map[string][]byte{"x/GT/a.png": m, "y/gt/a.png": m}, "x/img/a.jpg", "y/img/a.jpg"), dataset.Options{NoLabels: true},
		"holds masks beside images (x/GT, y/gt), and this would join them")
	got, _, err := targetsOf(t, pairTree(t, map[string][]byte{"labels/a.json": []byte("{}")}, "images/a.jpg"), dataset.Options{NoLabels: true})
	testenv.Check(t, err == nil && len(got["train"]) == 1, "%v %v", got, err)
	refused(t, pairTree(t, map[string][]byte{"train_masks/a.png": m}, "train_images/a.jpg"), dataset.Options{},
		"has folders that are not called as classes are (train_images)")
}

func TestMaskKinds(t *testing.T) {
	gray := image.NewGray(image.Rect(0, 0, 3, 2))
	copy(gray.Pix, []byte{0, 1, 150, 255, 7, 8})
	bits := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	bits.Pix[1], bits.Pix[3] = 1, 1
	wide := image.NewGray16(image.Rect(0, 0, 3, 2))
	wide.SetGray16(1, 0, color.Gray16{Y: 1000})
	colours := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	colours.SetNRGBA(1, 0, color.NRGBA{232, 3, 0, 255}) // 1000, as ImageNet-S writes it
	list := sourcetest.Write(t, filepath.Join(t.TempDir(), "map.txt"), []byte("# from to\n1000 255\n0 7\n"))
	m := testenv.Must(dataset.ReadLabelMap(list))(t)
	for _, c := range []struct {
		name string
		mask []byte
		o    dataset.TargetOptions
		want string
	}{
		{"grey", encodePNG(t, gray), dataset.TargetOptions{}, "mask [0 1 150 255 7 8]"},
		{"reduced", encodePNG(t, gray), dataset.TargetOptions{ReduceZero: true}, "mask [255 0 149 255 6 7]"},
		{"one bit", encodePNG(t, bits), dataset.TargetOptions{}, "mask [0 1 0 1 0 0]"},
		{"16 bits", encodePNG(t, wide), dataset.TargetOptions{}, "its mask has 16-bit grey"},
		{"16 bits, mapped", encodePNG(t, wide), dataset.TargetOptions{Map: m}, "mask [7 255 7 7 7 7]"},
		{"colours", encodePNG(t, colours), dataset.TargetOptions{}, "its mask has colours"},
		{"colours, mapped", encodePNG(t, colours), dataset.TargetOptions{Map: m}, "mask [7 255 7 7 7 7]"},
		{"unmapped label", encodePNG(t, gray), dataset.TargetOptions{Map: m}, "its mask has the label 1, which the map of labels lacks"},
		{"another size", maskOf(t, 2, 3), dataset.TargetOptions{}, "the mask has 2×3 pixels, and the image 3×2"},
		{"a JPEG", jpegOf(t, 3, 2), dataset.TargetOptions{}, "a mask of the format jpeg"},
		{"cut", encodePNG(t, gray)[:40], dataset.TargetOptions{}, "png:"},
	} {
		got, _ := mustTargets(t, 1, pairTree(t, map[string][]byte{"masks/a.png": c.mask}, "images/a.jpg"), dataset.Options{Targets: c.o})
		testenv.Check(t, strings.HasPrefix(got["train"]["a.jpg"], c.want), "%s: %v, want %s", c.name, got, c.want)
	}
	lacking := pairTree(t, map[string][]byte{"masks/a.png": encodePNG(t, gray)}, "images/a.jpg", "images/b.jpg")
	got, _ := mustTargets(t, 1, lacking, dataset.Options{})
	testenv.Equal(t, got["train"]["b.jpg"], "there is no mask for it", "an image without a mask")
	for text, want := range map[string]string{"": "maps no labels", "7": "line 1", "7 256": "line 1", "1 2\n1 3": "line 2", "-1 0": "line 1", "a 0": "line 1"} {
		testenv.Fails(dataset.ReadLabelMap(sourcetest.Write(t, list, []byte(text))))(t, want)
	}
}

func TestXMLBesideImages(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	a, b := xmlOf("dog 0 10 11 30 35.5", "cat 1 1 1 60 40"), xmlOf("bird 0 5 5 50 41")
	for images, xml := range map[string]string{"images/": "annotations/", "": "", "JPEGImages/": "Annotations/"} { // folders
		got, splits := mustTargets(t, 1, lay(t, map[string][]byte{images + "a.jpg": photo, images + "b.jpg": photo, images + "c.jpg": photo,
			xml + "a.xml": a, xml + "b.xml": b}), dataset.Options{})
		same(t, "in "+images, got["train"], map[string]string{
			"a.jpg": `objects {"boxes":[[10,11,30,35.5],[1,1,60,40]],"difficult":[0,1],"labels":[2,1],"truncated":[1,1]}`,
			"b.jpg": `objects {"boxes":[[5,5,50,41]],"difficult":[0],"labels":[0],"truncated":[1]}`,
			"c.jpg": `objects {"boxes":[],"difficult":[],"labels":[],"truncated":[]}`,
		})
		testenv.Contains(t, notes(splits[0]), "1 image has no XML", "1 box reaches out of its image")
	}
	root := lay(t, map[string][]byte{"images/a.jpg": photo, "annotations/a.xml": a})
	got, splits := mustTargets(t, 1, root, dataset.Options{Targets: dataset.TargetOptions{OneBased: true, DropCrowd: true}})
	testenv.Contains(t, notes(splits[0]), "1 object is difficult, and left out")
	same(t, "one-based, without crowd", got["train"], map[string]string{
		"a.jpg": `objects {"boxes":[[9,10,30,35.5]],"difficult":[0],"labels":[1],"truncated":[1]}`})
	refused(t, root, dataset.Options{Classes: sourcetest.Write(t, filepath.Join(t.TempDir(), "c.txt"), []byte("cat\n"))}, `the class "dog", which is not among the 1`)
	for want, bad := range map[string][]byte{"cannot be read as XML": []byte("<annotation><object>"), `the edge "x"`: xmlOf("dog 0 x 1 2 3"), "has the box": xmlOf("dog 0 nan 1 2 3"),
		"object 1 has no name": []byte(strings.Replace(string(xmlOf("dog 0 1 1 2 3", "cat 0 1 1 2 3")), "<name>cat</name>", "", 1)),
		"object 0 has no name": []byte(strings.Replace(string(a), "dog", " ", 1)),
		"expected element type <annotation> but have <annotations>": []byte(`<annotations><image name="a.jpg"><box label="dog"/></image></annotations>`), // CVAT's
		"but have <html>": []byte("<html><body>404</body></html>")} {
		refused(t, lay(t, map[string][]byte{"images/a.jpg": photo, "annotations/a.xml": bad}), dataset.Options{}, want)
	}
}

// Splits of XML have the classes of all.
func TestXMLOfSplits(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	root := lay(t, map[string][]byte{
		"train/images/a.jpg": photo, "train/annotations/a.xml": xmlOf("dog 0 1 1 2 2"), "valid/images/a.jpg": photo, "valid/annotations/a.xml": xmlOf("cat 0 1 1 2 2"),
	})
	got, splits := mustTargets(t, 2, root, dataset.Options{})
	testenv.Contains(t, got["train"]["a.jpg"], `"labels":[1]`)
	testenv.Contains(t, got["val"]["a.jpg"], `"labels":[0]`)
	namesObjects(t, splits[1], "cat dog")
}

func TestYOLO(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	text1 := []byte("0 0.5 0.5 0.5 0.25\n")
	text := []byte("1 0.5 0.5 0.5 0.25\n0 0.1 0.1 0.4 0.1 0.4 0.5\n\n1 1 0.5 0.1 0.1\n")
	want := map[string]string{
		"a.jpg": `objects {"boxes":[[15,15,45,25],[6,4,24,20],[57,18,63,22]],"labels":[1,0,1]}`,
		"b.jpg": `objects {"boxes":[],"labels":[]}`,
	}
	yaml := func(text string) []byte { return []byte(text) }
	for name, files := range map[string]map[string][]byte{
		"Roboflow": {"data.yaml": yaml("train: ../train/images\nval: ../valid/images\n\nnc: 2\nnames: ['cat', \"dog\"]\n"), "train/images/a.jpg": photo, "train/images/b.jpg": photo,
			"train/labels/a.txt": text, "valid/images/a.jpg": photo, "valid/labels/a.txt": text},
		"ultralytics": {"coco8.yaml": yaml("# a comment\npath: ../data  # root\ntrain: images/train\nval: images/val\ntest:\n\nnames:\n  0: cat\n  1: dog\n"), "images/train/a.jpg": photo,
			"images/train/b.jpg": photo, "labels/train/a.txt": text, "images/val/a.jpg": photo, "labels/val/a.txt": text},
		"list of names": {"data.yaml": yaml("names:\n- cat\n- dog\ntrain: images/set_1\nval: images/set_2\n"), "images/set_1/a.jpg": photo,
			"images/set_1/b.jpg": photo, "labels/set_1/a.txt": text, "images/set_2/a.jpg": photo},
		"classes.txt": {"classes.txt": []byte("cat\ndog\n"), "images/train/a.jpg": photo, "images/train/b.jpg": photo, "labels/train/a.txt": text,
			"images/val/a.jpg": photo, "labels/val/a.txt": text},
		"in train/ and val/": {"train/images/a.jpg": photo, "train/images/b.jpg": photo, "train/labels/a.txt": text, "val/images/a.jpg": photo, "val/labels/a.txt": text,
			"train/classes.txt": []byte("cat\ndog\n"), "val/classes.txt": []byte("cat\ndog\n")},
	} {
		got, splits := mustTargets(t, 2, lay(t, files), dataset.Options{})
		same(t, name, got["train"], want)
		namesObjects(t, splits[0], "cat dog")
	}
	for bad, want := range map[string]string{"2 .5 .5 .1 .1": "the class 2 is not among the 2", "-1 .5 .5 .1 .1": "the class -1", "0 .5 .5 .1": "3 numbers behind the class",
		"0 .5 .5 .1 .1 .9": "5 numbers behind the class", "0 .5 .5 x .1": `"x" is not a number`, "0 .5 .5 inf .1": "the box",
		"0 .5 .5 .1 .1\n1 30 20 10 10": "line 2: 30 is not a fraction"} {
		refused(t, lay(t, map[string][]byte{"classes.txt": []byte("cat\ndog\n"), "images/a.jpg": photo, "labels/a.txt": []byte(bad)}), dataset.Options{}, want)
	}
	for text, want := range map[string]string{
		"names: [a]\ntrain: images/t\nkpt_shape: [4, 2]": "has keypoints, which are not read",
		"names: [a]\ntrain: [images/t, images/v]":        "train is a list of 2 folders",
		"names: [a]\ntrain: images/v":                    "no image has labels in a .txt of its name in",
	} {
		refused(t, lay(t, map[string][]byte{"data.yaml": yaml(text), "images/t/a.jpg": photo, "labels/t/a.txt": text1, "images/v/b.jpg": photo, "labels/v/c.txt": text1}), dataset.Options{}, want)
	}
	root := lay(t, map[string][]byte{"images/t/a.jpg": photo, "labels/t/a.txt": text1})
	for _, text := range []string{"names: [a]\ntrain: [images/t]", "names: [a]\npath: " + root + "\ntrain: images/t"} {
		files := map[string][]byte{"data.yaml": yaml(text), "images/t/a.jpg": photo, "labels/t/a.txt": text1}
		got, _ := testenv.Must2(targetsOf(t, lay(t, files), dataset.Options{}))(t)
		same(t, "samples", got["train"], map[string]string{"a.jpg": `objects {"boxes":[[15,15,45,25]],"labels":[0]}`})
	}
	testenv.Must2(targetsOf(t, lay(t, map[string][]byte{"data.yaml": yaml("names: [a]\npath: " + root + "\ntrain: images/t")}), dataset.Options{}))(t)
	refused(t, lay(t, map[string][]byte{"data.yaml": yaml("names: [a]\n\ttrain: images/t\n")}), dataset.Options{}, "cannot be read as YAML: yaml: line 2")
	refused(t, lay(t, map[string][]byte{"data.yaml": yaml("names: [a]\ntrain: images/t\nval: images/v\n"), "images/t/a.jpg": photo}), dataset.Options{}, "val: images/v is not a folder")
}

func TestVOC(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	_, _, err := targetsOf(t, lay(t, map[string][]byte{"JPEGImages/a.jpg": photo, "Annotations/a.xml": xmlOf(), "ImageSets/Main/train.txt": []byte("a\nb\n")}), dataset.Options{})
	testenv.Says(t, "VOC", err, "names 2 images, of which 1 is not in")
	testenv.Check(t, !strings.Contains(fmt.Sprint(err), "--images"), "this is not for VOC: %v", err)
	root := lay(t, map[string][]byte{
		"VOCdevkit/VOC2012/JPEGImages/a.jpg": photo, "VOCdevkit/VOC2012/JPEGImages/b.jpg": photo, "VOCdevkit/VOC2012/JPEGImages/c.jpg": photo,
		"VOCdevkit/VOC2012/Annotations/a.xml": xmlOf("dog 0 1 2 3 4"), "VOCdevkit/VOC2012/Annotations/b.xml": xmlOf("cat 0 1 2 3 4"),
		"VOCdevkit/VOC2012/SegmentationClass/a.png":               maskOf(t, 60, 40, 255),
		"VOCdevkit/VOC2012/ImageSets/Main/train.txt":              []byte("a\n"),
		"VOCdevkit/VOC2012/ImageSets/Main/val.txt":                []byte("b\n"),
		"VOCdevkit/VOC2012/ImageSets/Main/trainval.txt":           []byte("a\nb\n"),
		"VOCdevkit/VOC2012/ImageSets/Main/dog_train.txt":          []byte("a 1\n"),
		"VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt":      []byte("a\n"),
		"VOCdevkit/VOC2012/SegmentationObject/a.png":              maskOf(t, 60, 40, 1),
		"VOCdevkit/VOC2012/ImageSets/Segmentation/trainval.txt":   []byte("a\n"),
		"VOCdevkit/VOC2012/ImageSets/Layout/train.txt":            []byte("a\n"),
		"VOCdevkit/VOC2012/ImageSets/Action/jumping_trainval.txt": []byte("a\n"),
	})
	mask := "mask [" + strings.TrimSuffix(strings.Repeat("255 ", 2400), " ") + "]"
	dog := `objects {"boxes":[[1,2,3,4]],"difficult":[0],"labels":[1],"truncated":[1]}`
	cat := strings.Replace(dog, `"labels":[1]`, `"labels":[0]`, 1)
	for _, c := range []struct {
		o    dataset.Options
		want map[string]map[string]string
	}{
		{dataset.Options{}, map[string]map[string]string{"train": {"a.jpg": dog}, "val": {"b.jpg": cat}}},
		{dataset.Options{Split: "trainval"}, map[string]map[string]string{"trainval": {"a.jpg": dog, "b.jpg": cat}}},
		{dataset.Options{Targets: dataset.TargetOptions{Take: dataset.TakeMasks}}, map[string]map[string]string{"train": {"a.jpg": mask}}},
		{dataset.Options{Targets: dataset.TargetOptions{Take: dataset.TakeBoth}}, map[string]map[string]string{"train": {"a.jpg": strings.Replace(dog, "[1],\"t", "[0],\"t", 1) + " | " + mask}}},
		{dataset.Options{Targets: dataset.TargetOptions{Take: dataset.TakeNone}}, map[string]map[string]string{"train": {"a.jpg": ""}, "val": {"b.jpg": ""}}},
	} {
		got, _ := mustTargets(t, len(c.want), filepath.Join(root, "VOCdevkit"), c.o)
		for split, want := range c.want {
			same(t, split, got[split], want)
		}
	}
	refused(t, root+"/VOCdevkit/VOC2012", dataset.Options{Split: "test"}, "")
}

func TestPets(t *testing.T) {
	trimap := maskOf(t, 3, 2, 1, 2, 3)
	root := pairTree(t, map[string][]byte{
		"annotations/trainval.txt": []byte("Abyssinian_1 1 1 1\nyorkshire_terrier_2 37 2 25\n"), "annotations/test.txt": []byte("Abyssinian_3 1 1 1\n"),
		"annotations/list.txt": []byte("#Image CLASS-ID SPECIES BREED ID\n"), "annotations/trimaps/Abyssinian_1.png": trimap,
		"annotations/trimaps/yorkshire_terrier_2.png": trimap, "annotations/trimaps/Abyssinian_3.png": trimap, "annotations/trimaps/._Abyssinian_3.png": trimap,
		"annotations/xmls/Abyssinian_1.xml": xmlOf("cat 0 1 1 2 2"),
	}, "images/Abyssinian_1.jpg", "images/yorkshire_terrier_2.jpg", "images/Abyssinian_3.jpg")
	got, splits := mustTargets(t, 2, root, dataset.Options{})
	const mask = "mask [1 2 3 1 2 3]"
	same(t, "train", got["train"], map[string]string{"Abyssinian_1.jpg": mask, "yorkshire_terrier_2.jpg": mask})
	classes := splits[0].Classes()
	testenv.Check(t, len(classes) == 37 && classes[0] == "Abyssinian" && classes[36] == "yorkshire_terrier", "%v", classes)
	label := mustItems(t, open(t, root, dataset.Options{Split: "train"}))["yorkshire_terrier_2.jpg"].label
	testenv.Equal(t, label, 36, "the label of the last breed")
}

func TestCityscapes(t *testing.T) {
	files := map[string][]byte{"gtFine/train/ulm/ulm_0_1_gtFine_labelIds.png": maskOf(t, 3, 2, 7, 8, 33, 0, 24, 34), "gtFine/train/ulm/ulm_0_1_gtFine_color.png": maskOf(t, 3, 2),
		"gtFine/val/bonn/bonn_0_1_gtFine_labelIds.png": maskOf(t, 3, 2, 26)}
	root := pairTree(t, files, "leftImg8bit/train/ulm/ulm_0_1_leftImg8bit.png", "leftImg8bit/val/bonn/bonn_0_1_leftImg8bit.png", "leftImg8bit/test/berlin/berlin_0_1_leftImg8bit.png")
	got, splits := mustTargets(t, 2, root, dataset.Options{})
	same(t, "train", got["train"], map[string]string{"ulm/ulm_0_1_leftImg8bit.png": "mask [0 1 18 255 11 255]"})
	same(t, "val", got["val"], map[string]string{"bonn/bonn_0_1_leftImg8bit.png": "mask [13 13 13 13 13 13]"})
	classes := splits[0].Fields()[0].Classes
	testenv.Check(t, len(classes) == 19 && classes[18] == "bicycle", "%v", classes)
}

// ImageNet's XML stands beside the class labels; a part of the images has none.
func TestKaggleBoxes(t *testing.T) {
	files, _, _ := kaggleTree(2)
	photo := jpegOf(t, 60, 40)
	for name := range files {
		if strings.HasSuffix(name, ".JPEG") {
			files[name] = photo
		}
	}
	files["ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml"] = xmlOf("n01440764 0 1 1 9 9", "n01443537 0 1 1 9 9")
	files["ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_00000490.xml"] = xmlOf("n01440764 0 1 1 61 9")
	root := lay(t, files)
	zipped := sourcetest.Write(t, filepath.Join(t.TempDir(), "imagenet-object-localization-challenge.zip"), zipOf(t, files))
	for _, path := range []string{root, zipped, filepath.Join(root, "ILSVRC")} {
		got, splits := mustTargets(t, 2, path, dataset.Options{ForceClasses: true})
		same(t, path, got["train"], map[string]string{
			"n01440764/n01440764_18.JPEG": `objects {"boxes":[[1,1,9,9],[1,1,9,9]],"difficult":[0,0],"labels":[0,1],"truncated":[1,1]}`,
			"n01443537/n01443537_18.JPEG": `objects {"boxes":[],"difficult":[],"labels":[],"truncated":[]}`,
		})
		namesObjects(t, splits[0], strings.Join(splits[0].Classes(), " "))
		got, _ = mustTargets(t, 2, path, dataset.Options{ForceClasses: true, Targets: dataset.TargetOptions{Take: dataset.TakeNone}})
		testenv.Equal(t, got["train"]["n01440764/n01440764_18.JPEG"], "", "without targets")
	}
}

// A dataset with other boxes or masks is another one, for the index of images in place.
func TestIdentityOfTargets(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	for name, files := range map[string]map[string][]byte{
		"annotations/instances_train2017.json": {"annotations/instances_train2017.json": cocoFile(cocoBoxes), "train2017/a.jpg": photo, "train2017/b.jpg": photo},
		"masks/a.png":                          {"masks/a.png": maskOf(t, 60, 40), "images/a.jpg": photo},
		"annotations/a.xml":                    {"annotations/a.xml": xmlOf("dog 0 1 1 2 2"), "images/a.jpg": photo},
		"labels/a.txt":                         {"labels/a.txt": []byte("0 .5 .5 .1 .1"), "images/a.jpg": photo, "classes.txt": []byte("dog\n")},
	} {
		root := lay(t, files)
		before := identity(t, root)
		testenv.Equal(t, identity(t, root), before, "%s: identity", name)
		sourcetest.Write(t, filepath.Join(root, name), append(slices.Clone(files[name]), '\n'))
		testenv.Check(t, identity(t, root) != before, "%s was changed, and the identity is the same", name)
	}
	root := lay(t, map[string][]byte{"classes.txt": []byte("dog\n"), "labels/a.txt": nil, "images/a.jpg": photo})
	before := identity(t, root)
	sourcetest.Write(t, filepath.Join(root, "classes.txt"), []byte("cat\n"))
	testenv.Check(t, identity(t, root) != before, "a class has another name, and the identity is the same")
}
