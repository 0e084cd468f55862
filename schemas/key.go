package schemas

import "strconv"

// KeyPart is one part of a series key, before its text is made.
type KeyPart struct {
	Kind keyKind
	Text []byte // aliases the record or the projection
	Num  int64
}

type keyKind uint8

// The kinds of parts.
const (
	KeyNone keyKind = iota // not found: the key is missing
	KeyText
	KeyNumber
	KeyUUID  // 16 bytes, as in RFC 9562
	KeyEmpty // a tag or attribute that the record does not have: nothing is written
)

// AppendUUID appends the text of a UUID of 16 bytes.
func AppendUUID(dst, id []byte) []byte {
	const digits = "0123456789abcdef"
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// appendKeyPart appends a part's text, with '/' and '\' escaped if it is one of
// several.
func appendKeyPart(dst []byte, p *KeyPart, several bool) []byte {
	switch p.Kind {
	case KeyEmpty:
		return dst
	case KeyNumber:
		return strconv.AppendInt(dst, p.Num, 10)
	case KeyUUID:
		return AppendUUID(dst, p.Text)
	}
	if !several {
		return append(dst, p.Text...)
	}
	for _, c := range p.Text {
		if c == '/' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}
