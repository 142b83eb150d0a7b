package transform

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An exception is an operation some of whose bits are not torchvision's.
type exception struct {
	Op, On string  // the operation, and what it works on
	Share  float64 // the part of the values that differ
	Levels int     // the largest difference
	Torch  string  // the releases of torch that were compared
}

// What operations work on. The last are tensors that torchvision.transforms works on, without v2.
const (
	onImages    = "images of Pillow"
	onTensors   = "tensors"
	onTensorsV1 = "tensors of v1"
)

// exceptionsText is what scripts/exceptions.py has measured.
//
//go:embed exceptions.json
var exceptionsText []byte

var exceptions = func() (all []exception) {
	if err := json.Unmarshal(exceptionsText, &all); err != nil {
		panic("transform: exceptions.json: " + err.Error())
	}
	return all
}()

// Inexact says, in a sentence for the user, which operations have bits that are not always torchvision's; "" if there are none.
func (s *Spec) Inexact() string {
	var named []string
	on := onImages
	_ = visit(s.ops, &on, func(op Op, on string) error {
		for _, e := range exceptions {
			text := fmt.Sprintf("%s on %s (%.2g %% of the values, by up to %d)", e.Op, e.On, 100*e.Share, e.Levels)
			if e.Op == NameOf(op) && e.On == on && !slices.Contains(named, text) {
				named = append(named, text)
			}
		}
		return nil
	})
	if named == nil {
		return ""
	}
	return "some results differ from torchvision's: those of " + strings.Join(named, ", ") + "; docs/transforms.md#exactness has the table"
}

// visit calls do for each operation, those that others hold among them, with what it works on: at first on, which it sets to what
// the next one would work on. It ends with do's first error.
func visit(ops []Op, on *string, do func(op Op, on string) error) error {
	for _, op := range ops {
		if o, made := op.(ToImage); made {
			if *on = onTensors; o.V1 {
				*on = onTensorsV1
			}
		}
		err := do(op, *on)
		if err == nil {
			err = visit(heldBy(op), on, do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse returns the error of an operation that torchvision has not on what it works on, or nil.
func refuse(op Op, on string) error {
	if plain := reflect.ValueOf(op).FieldByName("Plain"); on == onImages {
		if plain.IsValid() && plain.Bool() {
			return specError("%s has antialias false, but images of Pillow are always antialiased: put ToImage before it", NameOf(op))
		}
		return nil
	}
	if _, timms := op.(TimmAugment); timms {
		return specError("timm has %s for images of Pillow only: put it before ToImage", NameOf(op))
	}
	field := reflect.ValueOf(op).FieldByName("Interpolation")
	if !field.IsValid() {
		return nil
	}
	maps := []string{"RandomRotation", "RandomAffine", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"}
	filter := field.Interface().(Interpolation)
	if filter == Box || filter == Hamming || filter == Bicubic && slices.Contains(maps, NameOf(op)) {
		return specError("torchvision's %s does not take tensors with the interpolation %s: put it before ToImage", NameOf(op), filter)
	}
	return nil
}
