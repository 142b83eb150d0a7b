package source

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/targets"
)

const imageIDColumn = "image_id"

// objectColumns are the columns of objects in a parquet file; -1 where the file lacks one. Both layouts, a struct of lists and a list of
// structs, have their values one after the other: four numbers of boxes for each category.
type objectColumns struct {
	box, category, area, crowd, id int
	classes                        []string
}

// findObjects finds the columns of objects. ok is false if there are none, or if the options leave them out.
func (f *parquetFile) findObjects(opts dataset.Options, features hubFeatures) (c objectColumns, ok bool) {
	c = objectColumns{-1, -1, -1, -1, -1, nil}
	if opts.NoLabels || !opts.Targets.Takes(shard.Objects, true, false) {
		return c, false
	}
	for _, path := range f.Schema().Columns() {
		leaf, _ := f.Schema().Lookup(path...)
		kind := leaf.Node.Type().Kind()
		number := kind != parquet.ByteArray && kind != parquet.FixedLenByteArray && kind != parquet.Int96
		if len(path) == 1 && path[0] == imageIDColumn && (kind == parquet.Int32 || kind == parquet.Int64) {
			c.id = leaf.ColumnIndex
		}
		if path[0] != targets.RecordsName || leaf.MaxRepetitionLevel == 0 {
			continue
		}
		of := func(keys []string) bool {
			return slices.ContainsFunc(path[1:], func(part string) bool { return slices.Contains(keys, part) })
		}
		switch {
		case of(targets.BoxKeys) && number && leaf.MaxRepetitionLevel == 2:
			c.box = leaf.ColumnIndex
		case of(targets.CategoryKeys) && (number || kind == parquet.ByteArray) && c.category < 0:
			c.category = leaf.ColumnIndex
		case of(targets.AreaKeys) && number:
			c.area = leaf.ColumnIndex
		case of(targets.CrowdKeys) && number:
			c.crowd = leaf.ColumnIndex
		}
	}
	c.classes = objectClasses(features[targets.RecordsName])
	return c, c.box >= 0 && c.category >= 0
}

// objectClasses are the names of the categories that a column's description has.
func objectClasses(description json.RawMessage) []string {
	var find func(raw json.RawMessage) []string
	find = func(raw json.RawMessage) []string {
		var one hubFeature
		if json.Unmarshal(raw, &one) == nil && one.Type == "ClassLabel" {
			return one.Names
		}
		var below map[string]json.RawMessage
		var list []json.RawMessage
		json.Unmarshal(raw, &list)
		json.Unmarshal(raw, &below)
		for _, key := range slices.Sorted(maps.Keys(below)) {
			list = append(list, below[key])
		}
		for _, inner := range list {
			if names := find(inner); names != nil {
				return names
			}
		}
		return nil
	}
	return find(description)
}

// newTargets makes the targets of the first file's columns.
func (l *parquetLayout) newTargets() {
	if !l.first.hasObjects {
		return
	}
	classes := l.first.objects.classes
	if l.first.label < 0 && len(l.names.Names) > 0 {
		classes = l.names.Names
	}
	l.targets = targets.NewRecords(classes, l.first.objects.id >= 0, l.opts.Targets)
}

// sampleOf reads the objects in a row's columns.
func (c *objectColumns) sampleOf(m *targets.Objects, byColumn map[int][]parquet.Value) (s targets.Sample, err error) {
	var categories []any
	for _, v := range byColumn[c.category] {
		if !v.IsNull() {
			categories = append(categories, parquetScalar(v))
		}
	}
	numbers := func(column int) (all []float64) {
		for _, v := range byColumn[column] {
			switch x := parquetScalar(v).(type) {
			case bool:
				if all = append(all, 0); x {
					all[len(all)-1] = 1
				}
			case int64:
				all = append(all, float64(x))
			case float32:
				all = append(all, float64(x))
			case float64:
				all = append(all, x)
			}
		}
		return all
	}
	if ids := numbers(c.id); len(ids) > 0 {
		s.ID = byColumn[c.id][0].Int64()
	}
	s.Objects, err = m.Make(numbers(c.box), categories, numbers(c.area), numbers(c.crowd))
	return s, err
}

// newTargets are the objects in the lines of JSON; nil if they have none, or if the options leave them out.
func (l *listLayout) newTargets() *targets.Values {
	if len(l.objects) == 0 {
		return nil
	}
	names := make(map[string]bool)
	for _, raw := range l.objects {
		for _, name := range targets.CategoriesOf(raw) {
			names[name] = true
		}
	}
	classes := l.names.Names
	if len(classes) == 0 {
		classes = slices.Sorted(maps.Keys(names))
	}
	v := targets.NewRecords(classes, false, l.opts.Targets)
	v.Read = func(key string, _, _ int) ([]targets.Object, error) {
		raw := l.objects[key]
		if raw == nil {
			return nil, nil
		}
		objects, err := v.Objects.FromJSON(raw)
		if err != nil {
			i, _ := l.find(key)
			return nil, l.errorf(int(l.rows[i].line), "%v", err)
		}
		return objects, nil
	}
	return v
}
