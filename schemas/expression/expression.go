// Package expression evaluates expressions over the fields of a record: conditions, and values that are computed. They are
// in CEL, the Common Expression Language (cel.dev), without its loops.
//
// An expression is compiled once, for fields of any type, and Check compares it with the types of a schema. Names and selections
// (quality, data.quality, tags["a-b"]) are paths of fields; has(path) reports whether the record has a field that is not null.
package expression

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Kind is the type of a field, and of the value that a record has there.
type Kind uint8

// The kinds. Unknown is a field of any type, and a value that a record lacks.
const (
	Unknown Kind = iota
	Null
	Bool
	Int
	Double
	Text
	Bytes
	Time
)

func (k Kind) String() string {
	return [...]string{"missing", "null", "bool", "int", "double", "string", "bytes", "timestamp"}[k]
}

var celTypes = [...]*cel.Type{
	Unknown: cel.DynType, Null: cel.NullType, Bool: cel.BoolType, Int: cel.IntType, Double: cel.DoubleType, Text: cel.StringType,
	Bytes: cel.BytesType, Time: cel.TimestampType,
}

// Type is what a schema says of a field.
type Type struct {
	Kind     Kind
	Nullable bool
}

func (t Type) cel() *cel.Type {
	c := celTypes[t.Kind]
	if t.Nullable && t.Kind >= Bool && t.Kind <= Bytes {
		return cel.NullableType(c)
	}
	return c
}

// Path is a field that an expression uses.
type Path struct {
	Names    []string
	Optional bool // the expression asks whether the record has it
}

func (p *Path) String() string { return strings.Join(p.Names, ".") }

// Expression is a compiled expression. It does not change: several goroutines may use it.
type Expression struct {
	Text  string
	Paths []Path // each once

	tree    *cel.Ast // in which paths are variables
	program cel.Program
	at      []int // where the operands of Paths are among the record's operands
	missing []*types.Err
	values  bool // the result is a number, else a condition
}

// maxText bounds an expression.
const maxText = 4096

// language is CEL with the functions of mathematics and without loops.
var language = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewCustomEnv(cel.StdLib(), cel.ClearMacros(), ext.Math(), cel.Macros(macros()...),
		cel.CrossTypeNumericComparisons(true), cel.EnableIdentifierEscapeSyntax(), cel.ParserExpressionSizeLimit(maxText))
})

// presence is the call that has(path) becomes.
const presence = "@has"

func macros() []cel.Macro {
	return []cel.Macro{cel.GlobalMacro("has", 1, func(h cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return h.NewCall(presence, args[0]), nil
	})}
}

// Condition compiles an expression that is true or false.
func Condition(text string) (*Expression, error) { return compile(text, false) }

// Value compiles an expression that is a number.
func Value(text string) (*Expression, error) { return compile(text, true) }

func compile(text string, values bool) (*Expression, error) {
	env, err := language()
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	tree, issues := env.Parse(text)
	if err := faults(issues); err != nil {
		return nil, err
	}
	e := &Expression{Text: text, tree: tree, values: values}
	r := resolver{e: e, at: map[string]int{}, info: tree.NativeRep().SourceInfo()}
	r.resolve(tree.NativeRep().Expr())
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	for i := range e.Paths {
		e.at = append(e.at, i)
		e.missing = append(e.missing, types.NewErr("the record has no text, number, Boolean or time at %s", e.Paths[i].String()).(*types.Err))
	}
	checked, err := e.check(make([]Type, len(e.Paths)))
	if err != nil {
		return nil, err
	}
	if env, err = env.Extend(e.declarations(make([]Type, len(e.Paths)))...); err == nil {
		e.program, err = env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	}
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return e, nil
}

// resolver replaces the paths of a tree by variables: 0 is the value at the first path, has0 whether the record has it.
type resolver struct {
	e      *Expression
	at     map[string]int // index in Paths
	info   *ast.SourceInfo
	faults []error
}

func variable(i int) string { return "@" + strconv.Itoa(i) }
func present(i int) string  { return presence + strconv.Itoa(i) }

func (r *resolver) fault(x ast.Expr, format string, args ...any) {
	at := r.info.GetStartLocation(x.ID())
	r.faults = append(r.faults, fmt.Errorf("column %d: "+format, append([]any{at.Column() + 1}, args...)...))
}

// resolve goes through a tree.
func (r *resolver) resolve(x ast.Expr) {
	if names := pathOf(x); names != nil {
		r.replace(x, variable(r.path(names, false)))
		return
	}
	switch x.Kind() {
	case ast.SelectKind, ast.StructKind, ast.ComprehensionKind:
		r.fault(x, "a field is named as a, a.b or a[\"b\"]; messages and loops are not part of expressions here")
	case ast.ListKind:
		for _, item := range x.AsList().Elements() {
			r.resolve(item)
		}
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			r.resolve(entry.AsMapEntry().Key())
			r.resolve(entry.AsMapEntry().Value())
		}
	case ast.CallKind:
		call := x.AsCall()
		if call.FunctionName() == presence {
			names := pathOf(call.Args()[0])
			if names == nil {
				r.fault(x, "has() asks for a field, as has(quality) or has(data.quality)")
				return
			}
			r.replace(x, present(r.path(names, true)))
			return
		}
		if call.IsMemberFunction() && !(call.Target().Kind() == ast.IdentKind && call.Target().AsIdent() == "math") {
			r.resolve(call.Target())
		}
		for _, arg := range call.Args() {
			r.resolve(arg)
		}
	}
}

func (r *resolver) replace(x ast.Expr, name string) {
	x.SetKindCase(ast.NewExprFactory().NewIdent(x.ID(), name))
}

// path returns the index of a path, which it adds.
func (r *resolver) path(names []string, optional bool) int {
	key := strings.Join(names, "\x00")
	i, ok := r.at[key]
	if !ok {
		i = len(r.e.Paths)
		r.at[key] = i
		r.e.Paths = append(r.e.Paths, Path{Names: names})
	}
	r.e.Paths[i].Optional = r.e.Paths[i].Optional || optional
	return i
}

// pathOf returns the path that a tree is; nil where it is none.
func pathOf(x ast.Expr) []string {
	switch x.Kind() {
	case ast.IdentKind:
		return []string{x.AsIdent()}
	case ast.SelectKind:
		if names := pathOf(x.AsSelect().Operand()); names != nil {
			return append(names, x.AsSelect().FieldName())
		}
	case ast.CallKind:
		call := x.AsCall()
		if call.FunctionName() != "_[_]" || call.Args()[1].Kind() != ast.LiteralKind {
			return nil
		}
		name, ok := call.Args()[1].AsLiteral().(types.String)
		if names := pathOf(call.Args()[0]); ok && names != nil {
			return append(names, string(name))
		}
	}
	return nil
}

// declarations are the variables of the paths, given their types.
func (e *Expression) declarations(list []Type) (options []cel.EnvOption) {
	for i := range e.Paths {
		options = append(options, cel.Variable(variable(i), list[i].cel()), cel.Variable(present(i), cel.BoolType))
	}
	return options
}

// Check reports what is wrong with the expression where the operands of the record have these types.
func (e *Expression) Check(operands []Type) error {
	list := make([]Type, len(e.Paths))
	for i, at := range e.at {
		list[i] = operands[at]
	}
	_, err := e.check(list)
	return err
}

func (e *Expression) check(list []Type) (*cel.Ast, error) {
	env, err := language()
	if err == nil {
		env, err = env.Extend(e.declarations(list)...)
	}
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	checked, issues := env.Check(e.tree)
	if err := faults(issues); err != nil {
		return nil, err
	}
	is, want := checked.OutputType(), "true or false (bool)"
	ok := is.IsEquivalentType(cel.BoolType) || is.IsEquivalentType(cel.DynType) || is.IsEquivalentType(cel.NullableType(cel.BoolType))
	if e.values {
		want = "a number (double, int or bool)"
		for _, t := range []*cel.Type{cel.DoubleType, cel.IntType} {
			ok = ok || is.IsEquivalentType(t) || is.IsEquivalentType(cel.NullableType(t))
		}
		ok = ok || is.IsEquivalentType(cel.NullType)
	}
	if !ok {
		return nil, fmt.Errorf("it is of type %s, not %s", readable(is.String()), want)
	}
	return checked, nil
}

// faults returns the errors of CEL, each with its column.
func faults(issues *cel.Issues) error {
	var list []error
	for _, e := range issues.Errors() {
		text := readable(e.Message)
		if strings.Contains(text, "no matching overload") && !strings.Contains(text, "'[]'") &&
			strings.Contains(text, "double") && strings.Contains(text, "int") {
			text += "; write 32.0 for a double, or int(x), double(x)"
		}
		list = append(list, fmt.Errorf("column %d: %s", max(e.Location.Column(), 0)+1, text))
	}
	return errors.Join(list...)
}

var (
	operator = regexp.MustCompile(`'([^'a-zA-Z]+|@in)'`)
	wrapper  = regexp.MustCompile(`wrapper\((\w+)\)`)
)

// readable writes the names of operators and types as a user does.
func readable(text string) string {
	text = wrapper.ReplaceAllString(text, "$1 or null")
	return operator.ReplaceAllStringFunc(text, strings.NewReplacer("_", "", "@", "").Replace)
}

// Bind says where the operands of Paths are among a record's operands.
func (e *Expression) Bind(at []int) { e.at = at }

// Split cuts a list of expressions at its commas, those outside of brackets and texts.
func Split(list string) (parts []string) {
	depth, start, quote := 0, 0, byte(0)
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			parts, start = append(parts, list[start:i]), i+1
		}
	}
	parts = append(parts, list[start:])
	var out []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// Operand is the value of a field. The zero value is a field that the record lacks.
type Operand struct {
	Kind  Kind
	Num   int64   // of Int and Bool, and of Time in microseconds since 1970
	Float float64 // of Double
	Text  []byte  // of Text and Bytes; aliases the record

	last   string // the text before, and its value: texts of conditions are few
	boxed  ref.Val
	number float64
	double ref.Val
}

// Set sets the value to the one of v.
func (o *Operand) Set(v Operand) { o.Kind, o.Num, o.Float, o.Text = v.Kind, v.Num, v.Float, v.Text }

// Operands are the values of a record that its expressions use. They serve one goroutine.
type Operands struct {
	List []Operand
	by   *Expression // that is evaluated
}

// Reset forgets the record before; n operands follow.
func (o *Operands) Reset(n int) {
	if len(o.List) != n {
		o.List = make([]Operand, n)
	}
	for i := range o.List {
		o.List[i].Kind = Unknown
	}
}

// Parent implements cel.Activation.
func (o *Operands) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (o *Operands) ResolveName(name string) (any, bool) {
	digits, has := name[1:], false
	if strings.HasPrefix(name, presence) {
		digits, has = name[len(presence):], true
	}
	i := 0
	for _, c := range []byte(digits) {
		i = 10*i + int(c-'0')
	}
	v := &o.List[o.by.at[i]]
	if has {
		return types.Bool(v.Kind > Null), true
	}
	switch v.Kind {
	case Null:
		return types.NullValue, true
	case Bool:
		return types.Bool(v.Num != 0), true
	case Int:
		return types.Int(v.Num), true
	case Double:
		if v.double == nil || v.number != v.Float {
			v.number, v.double = v.Float, types.Double(v.Float)
		}
		return v.double, true
	case Text:
		if v.boxed == nil || v.last != string(v.Text) {
			v.last = string(v.Text)
			v.boxed = types.String(v.last)
		}
		return v.boxed, true
	case Bytes:
		return types.Bytes(v.Text), true
	case Time:
		return types.Timestamp{Time: time.UnixMicro(v.Num).UTC()}, true
	}
	return o.by.missing[i], true
}

// Has reports whether the record has all fields that the expression needs; a null is one.
func (e *Expression) Has(o *Operands) bool {
	for i, at := range e.at {
		if !e.Paths[i].Optional && o.List[at].Kind == Unknown {
			return false
		}
	}
	return true
}

// Holds evaluates a condition.
func (e *Expression) Holds(o *Operands) (bool, error) {
	o.by = e
	out, _, err := e.program.Eval(o)
	if err != nil {
		return false, e.failed(o, err)
	}
	holds, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it is %s, not true or false", out.Type().TypeName())
	}
	return bool(holds), nil
}

// Number evaluates a value: NaN where it is null, and where it cannot be computed because a field is null. null reports the first.
func (e *Expression) Number(o *Operands) (value float64, null bool, err error) {
	o.by = e
	out, _, err := e.program.Eval(o)
	if err != nil {
		for _, i := range e.at {
			if o.List[i].Kind == Null {
				return math.NaN(), false, nil
			}
		}
		return 0, false, e.failed(o, err)
	}
	switch v := out.(type) {
	case types.Double:
		if math.IsInf(float64(v), 0) {
			return 0, false, errors.New("it is infinite: a division by zero, or too large a number")
		}
		return float64(v), false, nil
	case types.Int:
		return float64(v), false, nil
	case types.Bool:
		if v {
			return 1, false, nil
		}
		return 0, false, nil
	case types.Null:
		return math.NaN(), true, nil
	}
	return 0, false, fmt.Errorf("it is %s, not a number", out.Type().TypeName())
}

// failed returns the error of an evaluation, for one of types with the types of all fields.
func (e *Expression) failed(o *Operands, err error) error {
	if !strings.Contains(err.Error(), "no such overload") {
		return err
	}
	var kinds []string
	for i, at := range e.at {
		kinds = append(kinds, e.Paths[i].String()+" is "+o.List[at].Kind.String())
	}
	return fmt.Errorf("an operator or function does not take these types: %s; numbers with and without a point are different types",
		strings.Join(kinds, ", "))
}
