package server

// classesRequest asks for the names of the classes, from the first of a label on.
type classesRequest struct {
	First int `json:"first"`
}

// classesReply answers [classesRequest]: as many names as a message has room for. Class i of the list has label First + i.
type classesReply struct {
	First   int      `json:"first"`
	Count   int      `json:"count"` // of all
	Classes []string `json:"classes"`
}

// Kind implements [wire.Message].
func (classesRequest) Kind() string { return "classes" }

// Kind implements [wire.Message].
func (classesReply) Kind() string { return "classes" }

func (s *session) classes(m classesRequest) error {
	classes := s.set.Manifest().Classes
	if m.First < 0 || m.First > len(classes) {
		return badRequest("first is %d: the set has %d classes, so want 0 to that", m.First, len(classes))
	}
	return s.connection.send(classesReply{First: m.First, Count: len(classes), Classes: roomFor(classes[m.First:])})
}

// namesBytes are those of a message's names, with a quotation mark on both sides and a comma: six times as many in JSON, where
// every byte is escaped, are less than a frame takes.
const namesBytes = 2 << 20

// roomFor returns as many names, from the first on, as a message has room for: at least one, if there is any, and never nil, which
// JSON writes as null.
func roomFor(names []string) []string {
	room := namesBytes
	for i, name := range names {
		if room -= len(name) + len(`"",`); room < 0 {
			return names[:max(i, 1)]
		}
	}
	return append([]string{}, names...)
}
