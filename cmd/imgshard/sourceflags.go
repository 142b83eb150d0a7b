package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/shard/source"
)

// addSourceFlags adds the flags that say what looking at a source cannot tell.
func addSourceFlags(fl *pflag.FlagSet, o *source.Options) {
	fl.StringVar(&o.Split, "split", "", "name of the split (default by SRC's name, train if that says nothing)")
	fl.StringVar(&o.ValLabels, "val-labels", "", "file with the labels of ILSVRC2012's validation images: a wnid in each line, Kaggle's csv, Caffe's val.txt or valprep.sh (default the known ones)")
	fl.StringVar(&o.Classes, "classes", "", "file with a class name in each line, or ilsvrc2012 for its wnids: names numbers, as WebDataset's (default classes.txt beside the tars), and selects and orders class folders and tars")
	fl.StringVar(&o.Label, "label", "", "column of a parquet file or a list with the labels (default the likeliest), json.KEY for a key in the JSON of WebDataset's samples, or coarse for CIFAR-100")
	fl.StringVar(&o.Images, "images", "", "folder where the paths of a list of images begin (default the list's own)")
	fl.IntVar(&o.ClassesFrom, "classes-from", 1, "the class is the folder that lies this many levels below SRC")
	fl.StringVar(&o.ClassOrder, "class-order", source.ClassOrderNumeric, "order of classes that all are numbers: numeric, or string as torchvision's ImageFolder has them")
	fl.Func("field", "a value to keep of each sample beside its label, as `NAME=SOURCE[:TYPE]`: a column of parquet or of a list, or json, json.KEY, txt or npy beside the image; for each field once", func(text string) error {
		field, err := source.ParseField(text)
		if err == nil {
			o.Fields = append(o.Fields, field)
		}
		return err
	})
	fl.BoolVar(&o.Test, "test", false, "take the folder test/ too, although its images have no labels: theirs are -1")
	fl.BoolVar(&o.ForceClasses, "force-classes", false, "take folders for classes, as torchvision's ImageFolder would, although that is nearly certainly a mistake")
	fl.BoolVar(&o.AllowTruncated, "allow-truncated", false, "take what is there of tars that were cut off")
}

// checkSourceFlags refuses values of these flags that mean nothing.
func checkSourceFlags(o source.Options) error {
	switch {
	case o.ClassesFrom < 1 || o.ClassesFrom > source.ClassesFromMax:
		return fmt.Errorf("--classes-from %d: a class is a folder from 1 to %d levels deep", o.ClassesFrom, source.ClassesFromMax)
	case o.ClassOrder != source.ClassOrderNumeric && o.ClassOrder != source.ClassOrderString:
		return fmt.Errorf("--class-order %q: %s or %s", o.ClassOrder, source.ClassOrderNumeric, source.ClassOrderString)
	}
	return cmp.Or(cliutil.Local("--classes", o.Classes), cliutil.Local("--val-labels", o.ValLabels), cliutil.Local("--images", o.Images))
}
