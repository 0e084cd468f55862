package schemas

import "strconv"

// part is one part of a series key, before its text is made.
type part struct {
	kind partKind
	text []byte // aliases the record or the projection
	num  int64
}

type partKind uint8

const (
	partNone partKind = iota // not found: the key is missing
	partText
	partNumber
	partUUID // 16 bytes, as in RFC 9562
)

// appendPart appends a part's text, with '/' and '\' escaped if it is one of
// several.
func appendPart(dst []byte, p *part, several bool) []byte {
	switch p.kind {
	case partNumber:
		return strconv.AppendInt(dst, p.num, 10)
	case partUUID:
		const digits = "0123456789abcdef"
		for i, c := range p.text {
			if i == 4 || i == 6 || i == 8 || i == 10 {
				dst = append(dst, '-')
			}
			dst = append(dst, digits[c>>4], digits[c&15])
		}
		return dst
	}
	if !several {
		return append(dst, p.text...)
	}
	for _, c := range p.text {
		if c == '/' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}
