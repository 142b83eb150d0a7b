package webdataset

import (
	"encoding/json"
	"errors"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// newTargets are the targets that the options ask for: the objects in each sample's JSON, and masks.
func newTargets(classes []string, o dataset.TargetOptions) *targets.Values {
	v := new(targets.Values)
	if o.Take == dataset.TakeObjects || o.Take == dataset.TakeBoth {
		v = targets.NewRecords(classes, false, o)
	}
	if o.Take == dataset.TakeMasks || o.Take == dataset.TakeBoth {
		v.Masks = targets.NewMasks(classes, o)
	}
	if v.Objects == nil && v.Masks == nil {
		return nil
	}
	return v
}

// Targets are the targets of the samples; nil if they have none.
func (d *Tars) Targets() *targets.Values { return d.targets }

// addTargets appends a sample's targets to its fields. dropped says that the options leave it out.
func (d *Tars) addTargets(sm *sample, it *transport.Item) (dropped bool, err error) {
	var of targets.Sample
	if d.targets.Objects != nil {
		if of.Objects, err = d.objects(sm.members["json"]); err != nil {
			return false, err
		}
	}
	for _, extension := range maskMembers {
		if file, ok := sm.members[extension]; ok && of.Mask == nil {
			of.Mask = file
		}
	}
	if d.targets.Masks != nil && of.Mask == nil {
		it.Reason = "there is no mask for it"
		return false, nil
	}
	values, err := d.targets.AppendSample(it.Fields, sm.key, sm.content.Bytes(), of)
	if rejected, is := errors.AsType[*transport.RejectError](err); is {
		it.Reason, err = rejected.Reason, nil
	}
	it.Fields = values
	return errors.Is(err, dataset.ErrDropped), err
}

// objects are those under the key objects or annotations of a sample's JSON, or at its top. Without JSON there are none.
func (d *Tars) objects(content []byte) ([]targets.Object, error) {
	if content == nil {
		return nil, nil
	}
	raw := json.RawMessage(content)
	for _, key := range []string{targets.RecordsName, "annotations"} {
		if inner, err := dataset.JSONAt(content, key); err == nil {
			raw = inner
			break
		}
	}
	return d.targets.Objects.FromJSON(raw)
}
