package formats

import (
	"math/big"
	"testing"

	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

const (
	decimalAvro = `{"type":"record","name":"D","fields":[
		{"name":"plain","type":["null",{"type":"bytes","scale":3,"precision":64,"connect.version":1,
			"connect.parameters":{"scale":"3","connect.decimal.precision":"64"},"connect.name":"org.apache.kafka.connect.data.Decimal",
			"logicalType":"decimal"}]},
		{"name":"any","type":["null",{"type":"record","name":"VariableScaleDecimal","namespace":"io.debezium.data","fields":[
			{"name":"scale","type":"int"},{"name":"value","type":"bytes"}],"connect.name":"io.debezium.data.VariableScaleDecimal"}]},
		{"name":"list","type":{"type":"array","items":"io.debezium.data.VariableScaleDecimal"}}]}`
	decimalProto = `syntax = "proto3"; package confluent.type;
		message D { Decimal plain = 1; VariableScaleDecimal any = 2; repeated VariableScaleDecimal list = 3; }
		message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
		message VariableScaleDecimal { int32 scale = 1; bytes value = 2; }`
)

// twos returns an integer in two's complement, big endian, with at most one byte more than it needs.
func twos(n *big.Int, long bool) []byte {
	size := n.BitLen()/8 + 1
	if long {
		size++
	}
	v := new(big.Int).Set(n)
	if v.Sign() < 0 {
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return v.FillBytes(make([]byte, size))
}

// TestDecimalFormats: decimals as Kafka Connect's converters for Avro and Protobuf have them in their schemas, and Debezium's with a
// scale of its own, written by goavro and by dynamicpb, are math/big's nearest numbers.
func TestDecimalFormats(t *testing.T) {
	rng := seedtest.New(t)
	codec, err := goavro.NewCodec(decimalAvro)
	if err != nil {
		t.Fatal(err)
	}
	m := schemas.Mapping{Fields: []string{"plain", "any", "list[2]"}}
	d := message(t, decimalProto)
	decoders := map[string]*Decoder{}
	for format, schema := range map[string]string{"avro": decimalAvro, "protobuf": decimalProto} {
		if decoders[format], err = NewDecoder(m, nil, Options{Format: format, Bare: schema}); err != nil {
			t.Fatal(err)
		}
	}
	random := func() *big.Int {
		n := new(big.Int)
		for range 1 + rng.IntN(3) {
			n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(rng.Uint64()>>rng.IntN(64)))
		}
		if rng.IntN(2) == 0 {
			n.Neg(n)
		}
		return n
	}
	for range 500 {
		var rats [4]*big.Rat
		var unscaled [4]*big.Int
		var scales [4]int
		for i := range rats {
			unscaled[i], scales[i] = random(), rng.IntN(50)-15
			if i == 0 {
				scales[i] = 3
			}
			power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scales[i], -scales[i]))), nil))
			if scales[i] > 0 {
				power.Inv(power)
			}
			rats[i] = new(big.Rat).Mul(new(big.Rat).SetInt(unscaled[i]), power)
		}
		variable := func(i int) map[string]any {
			return map[string]any{"scale": scales[i], "value": twos(unscaled[i], rng.IntN(2) == 0)}
		}
		records := map[string][]byte{}
		records["avro"], err = codec.BinaryFromNative(nil, map[string]any{"plain": goavro.Union("bytes.decimal", rats[0]),
			"any":  goavro.Union("io.debezium.data.VariableScaleDecimal", variable(1)),
			"list": []any{variable(2), variable(3)}})
		if err != nil {
			t.Fatal(err)
		}
		msg := dynamicpb.NewMessage(d)
		set := func(m protoreflect.Message, i int) {
			f := m.Descriptor().Fields()
			m.Set(f.ByName("scale"), protoreflect.ValueOfInt32(int32(scales[i])))
			m.Set(f.ByName("value"), protoreflect.ValueOfBytes(twos(unscaled[i], rng.IntN(2) == 0)))
		}
		set(msg.Mutable(d.Fields().ByName("plain")).Message(), 0)
		set(msg.Mutable(d.Fields().ByName("any")).Message(), 1)
		for i := range 2 {
			set(msg.Mutable(d.Fields().ByName("list")).List().AppendMutable().Message(), i+2)
		}
		if records["protobuf"], err = proto.Marshal(msg); err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		for format, b := range records {
			if err := decoders[format].Decode(t.Context(), []byte("k"), b, 5, nil, &r); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			for i, want := range rats {
				if f, _ := want.Float64(); r.Values[i] != f {
					t.Fatalf("%s: value %d is %v, want %v", format, i, r.Values[i], f)
				}
			}
		}
	}

	none, err := codec.BinaryFromNative(nil, map[string]any{"plain": nil, "any": nil, "list": []any{
		map[string]any{"scale": 1, "value": []byte{12}}, map[string]any{"scale": 5000, "value": []byte{12}}}})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	wantClass(t, decoders["avro"].Decode(t.Context(), []byte("k"), none, 5, nil, &r), schemas.ClassTooLarge, "list[2]")
	msg := dynamicpb.NewMessage(d)
	for _, scale := range []int32{1, -400} {
		item := msg.Mutable(d.Fields().ByName("list")).List().AppendMutable().Message()
		item.Set(item.Descriptor().Fields().ByName("scale"), protoreflect.ValueOfInt32(scale))
		item.Set(item.Descriptor().Fields().ByName("value"), protoreflect.ValueOfBytes([]byte{12}))
	}
	b, _ := proto.Marshal(msg)
	wantClass(t, decoders["protobuf"].Decode(t.Context(), []byte("k"), b, 5, nil, &r), schemas.ClassInfinite, "list[2]")
	if r.Values[0] == r.Values[0] || r.Values[2] != 1.2 {
		t.Errorf("no decimal, and 1.2: %v", r.Values)
	}
	for format, want := range map[string]int{"avro": 4, "protobuf": 4} { // the paths of values: plain, any, list
		in, err := NewInspector(nil, Options{Format: format, Bare: map[string]string{"avro": decimalAvro, "protobuf": decimalProto}[format]})
		if err != nil {
			t.Fatal(err)
		}
		leaves := schemas.Leaves{Most: 100}
		body := map[string][]byte{"avro": none, "protobuf": b}[format]
		if _, err := in.Leaves(t.Context(), body, nil, &leaves); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, l := range leaves.List {
			if l.Path == "plain" || l.Path == "any" || l.Path == "list" && l.Kind != schemas.LeafArray {
				n++
			}
			if l.Path == "any.scale" || l.Path == "list.scale" {
				t.Errorf("%s: %s is a value of its own", format, l.Path)
			}
		}
		if n != want {
			t.Errorf("%s: %d values in %+v, want %d", format, n, leaves.List, want)
		}
	}
}
