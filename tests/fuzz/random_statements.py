"""Random statements, with weights that favor patterns on which optimizers act.

These are loops that repeat one statement, stores that do not depend on the loop, vectors
overwritten after use, and names that several blocks share.
"""

from dataclasses import replace
from typing import Any

from tests.fuzz import random_forms as forms
from tests.fuzz.random_expressions import FUNCTION, Expressions, Scope
from tests.fuzz.random_syntax import (
    Apply,
    Assign,
    Block,
    Branch,
    Declare,
    Density,
    Element,
    Foreach,
    Form,
    Function,
    Increment,
    Jump,
    Literal,
    Loop,
    Name,
    Range,
    Return,
    While,
)

DEEPEST_LOOP, DEEPEST_BRANCH = 2, 2


class Statements(Expressions):
    """Random statements and functions."""

    def fresh(self, letter: str) -> str:
        """A name that the program does not have yet: loops that share names may crash stanli."""
        self.names[letter] += 1
        return f"{letter}{self.names[letter]}"

    def several(self, scope: Scope, most: int) -> tuple:
        return tuple(self.statement(scope) for _ in range(self.random.randint(1, most)))

    def statement(self, scope: Scope) -> Any:
        kinds = [(2, self.assign_number), (2, self.store)]
        if scope.in_model:
            kinds += [
                (2, self.increment),
                (3, self.density),
                (0.5, self.mixture),
                (0.3, self.count_up),
            ]
        if scope.branches < DEEPEST_BRANCH:
            kinds.append((2, self.branch))
            if self.parameter_branches:
                kinds += [(2, self.parameter_branch), (1.5, self.parameter_while)]
        if scope.loops < DEEPEST_LOOP:
            kinds.append((3 if scope.loops == 0 else 1, self.loop))
        if scope.loops == 0:
            kinds.append((1.5, self.assign_vector))
            if scope.in_model:
                kinds += [
                    (3, self.nested_loops), (2, self.vector_density), (1, self.slice_density),
                    (1, self.assign_part), (1.5, self.filled), (0.7, self.foreach),
                    (0.7, self.while_loop),
                ]  # fmt: skip
        elif scope.loops == 1 and scope.long_index and scope.in_model:
            kinds.append((0.5, self.assign_row))
        if scope.jumps:
            kinds.append((0.4, self.jump))
        return self.pick(*kinds)(scope)

    # --- stores ----------------------------------------------------------------------------------

    def assign_number(self, scope: Scope) -> Assign:
        name = self.one_of(name for name in scope.own(scope.scalars) if name != "n")
        return Assign(Name(name), self.pick((2, "="), (1, "+=")), self.bounded(scope))

    def store(self, scope: Scope) -> Assign:
        """A store to an element, mostly at the innermost loop index."""
        index = self.long_index(scope)
        if scope.long_index and self.chance(0.8):
            index = Name(scope.long_index[0])
        if scope.in_model and self.chance(0.2):
            return Assign(Element("scale", (index,)), "=", self.positive(scope))
        operator = self.pick((4, "="), (1, "+="))
        if scope.in_model and scope.short_index and self.chance(0.4):
            target = Element("Q", (index, self.short_index(scope)))
        else:
            target = Element(self.one_of(scope.own(scope.vectors + scope.arrays)), (index,))
        return Assign(target, operator, self.bounded(scope))

    def assign_vector(self, scope: Scope) -> Assign:
        target = Name(self.one_of(scope.own(scope.vectors)))
        return Assign(target, self.pick((3, "="), (1, "+=")), self.bounded_vector(scope))

    def assign_part(self, scope: Scope) -> Assign:
        """A store to a range of a vector, to a permuted vector, or to a column of a matrix."""
        name = self.one_of(scope.own(scope.vectors))
        low, size = self.part()
        start = self.random.randint(1, self.n - size + 1)
        part = Apply(
            Form(f"({{0}})[{start}:{start + size - 1}]", lambda v: v[start - 1 : start + size - 1]),
            (self.bounded_vector(scope),),
        )
        whole = self.bounded_vector(scope)
        stores = (
            (Element(name, (Range(low, low + size - 1),)), part),
            (Element(name, (Name("order"),)), whole),
            (Element("Q", (Range(), Literal(self.random.randint(1, self.j)))), whole),
        )
        target, value = self.one_of(stores)
        return Assign(target, "=", value)

    def part(self) -> tuple[int, int]:
        size = self.random.randint(1, self.n - 1)
        return self.random.randint(1, self.n - size + 1), size

    def assign_row(self, scope: Scope) -> Assign:
        index = self.long_index(scope)
        row = Element(self.one_of(scope.matrices), (self.long_index(scope),))
        value = self.one_of((row, Apply(forms.TRANSPOSED, (Name("w"),))))
        value = Apply(self.one_of(forms.BOUNDED), (Apply(forms.SCALE, (self.leaf(scope), value)),))
        return Assign(Element("Q", (index,)), "=", value)

    def count_up(self, scope: Scope) -> Branch:
        return Branch(self.condition(scope), (Assign(Name("n"), "+=", Literal(1)),))

    def filled(self, scope: Scope) -> Block:
        """A vector that a loop fills by one of two rules, then used as a location."""
        name, variable = self.fresh("f"), self.fresh("i")
        inside = replace(
            self.within(scope, variable, False),
            branches=DEEPEST_BRANCH - 1, jumps=False,  # a jump would leave elements without a value
        )  # fmt: skip
        element = Element(name, (Name(variable),))
        rules = [(Assign(element, "=", self.bounded(inside)),) for _ in range(2)]
        extra = self.several(inside, 1) if self.chance(0.6) else ()
        fill = Branch(self.condition(inside), *rules)
        known = replace(scope, vectors=(*scope.vectors, name))
        scale = self.positive_vector(known)
        use = Density(forms.NORMAL, Name(self.one_of("xy")), (Name(name), scale), self.drops(scope))
        more = self.several(known, 1) if self.chance(0.3) else ()
        loop = Loop(variable, 1, "N", (*extra, fill))
        return Block((Declare("vector[N]", name, sizes=("N",)), loop, use, *more))

    # --- the target ------------------------------------------------------------------------------

    def drops(self, scope: Scope) -> bool:
        return scope.drops and self.chance(0.5)

    def increment(self, scope: Scope) -> Increment:
        if scope.loops == 0 and self.chance(0.3):
            return Increment(self.bounded_vector(scope))
        if self.functions and scope.loops < DEEPEST_LOOP and self.chance(0.4):
            return self.use(self.one_of(self.functions), scope)
        return Increment(Apply(self.one_of(forms.BOUNDED), (self.scalar(scope),)))

    def use(self, function: Function, scope: Scope) -> Increment:
        return Increment(self.call(function, scope))

    def density(self, scope: Scope) -> Density:
        if self.chance(0.25):
            family, data = self.one_of(((forms.POISSON_LOG, "k"), (forms.BERNOULLI_LOGIT, "z")))
            variate = Element(data, (self.long_index(scope),))
            return Density(family, variate, (self.bounded(scope),), self.drops(scope))
        arguments = (self.scalar(scope, self.pick((3, 0), (1, 1))), self.positive(scope))
        if self.chance(0.1):
            arguments = (Literal(4.0), *arguments)
            return Density(forms.STUDENT_T, self.leaf(scope), arguments, self.drops(scope))
        return Density(self.one_of(forms.LOCATED), self.leaf(scope), arguments, self.drops(scope))

    def mixture(self, scope: Scope) -> Increment:
        parts = tuple(
            Apply(forms.NORMAL_VALUE, (self.leaf(scope), self.leaf(scope), self.positive(scope)))
            for _ in range(2)
        )
        return Increment(Apply(forms.LOG_MIX, (self.leaf(scope), *parts)))

    def vector_density(self, scope: Scope) -> Density:
        if self.chance(0.3):
            family, data = self.one_of(((forms.POISSON_LOG, "k"), (forms.BERNOULLI_LOGIT, "z")))
            argument = self.pick((2, self.bounded_vector(scope)), (1, self.bounded(scope)))
            return Density(family, Name(data), (argument,), self.drops(scope))
        location = self.pick((3, self.vector(scope)), (1, self.scalar(scope)))
        arguments = (location, self.positive_vector(scope))
        return Density(
            self.one_of(forms.LOCATED), self.vector_leaf(scope), arguments, self.drops(scope)
        )

    def slice_density(self, scope: Scope) -> Density:
        """A density of a part of a vector, with the same part of another as location."""
        low, size = self.part()
        part = (Range(low, low + size - 1),)
        variate, location = (Element(self.one_of(scope.vectors), part) for _ in range(2))
        arguments = (location, self.positive(scope))
        return Density(self.one_of(forms.LOCATED), variate, arguments, self.drops(scope))

    # --- control flow ----------------------------------------------------------------------------

    def branch(self, scope: Scope) -> Branch:
        inside = replace(scope, branches=scope.branches + 1)
        no = self.several(inside, 2) if self.chance(0.5) else ()
        return Branch(self.condition(scope), self.several(inside, 2), no)

    def parameter_branch(self, scope: Scope) -> Branch:
        inside = replace(scope, branches=scope.branches + 1, drops=False, jumps=False)
        no = self.several(inside, 2) if self.chance(0.4) else ()
        return Branch(self.parameter_condition(scope), self.several(inside, 2), no)

    def parameter_while(self, scope: Scope) -> Block:
        """A loop that shrinks a number until it is small; a counter bounds it in any case."""
        number, counter = self.fresh("e"), self.fresh("c")
        few = Apply(forms.LESS, (Name(counter), Literal(6)))
        shrunk = Apply(forms.SCALE, (Literal(0.6), Name(number)))
        less = Apply(forms.SUBTRACT, (shrunk, Apply(forms.SMALL, (self.scalar(scope, 1),))))
        inside = replace(
            scope, scalars=(*scope.scalars, number),
            branches=DEEPEST_BRANCH, loops=DEEPEST_LOOP, drops=False, jumps=False,
        )  # fmt: skip
        extra = self.several(inside, 1) if self.chance(0.4) else ()
        step = (Assign(Name(number), "=", less), Assign(Name(counter), "+=", Literal(1)))
        loop = While(Apply(forms.BOTH, (Apply(forms.FAR, (Name(number),)), few)), (*step, *extra))
        after = Assign(Name(self.one_of("st" if scope.in_model else "t")), "+=", Name(counter))
        real = Declare("real", number, self.leaf(scope))
        return Block((Declare("int", counter, Literal(0)), real, loop, after))

    def loop(self, scope: Scope) -> Loop:
        short = scope.in_model and self.chance(0.25)
        variable, low = self.fresh("j" if short else "i"), self.pick((3, 1), (1, 2))
        body = self.several(self.within(scope, variable, short, low), 3)
        return Loop(variable, low, "J" if short else "N", body)

    def within(self, scope: Scope, variable: str, short: bool, low: int = 1) -> Scope:
        """The scope of the body of a loop."""
        return replace(
            scope,
            loops=scope.loops + 1,
            jumps=True,
            long_index=scope.long_index if short else (variable, *scope.long_index),
            short_index=(variable, *scope.short_index) if short else scope.short_index,
            from_two=(*scope.from_two, variable) if low == 2 else scope.from_two,
        )

    def nested_loops(self, scope: Scope) -> Loop:
        """Loops over rows and columns, in either order."""
        row, column = self.fresh("i"), self.fresh("j")
        inside = self.within(self.within(scope, row, False), column, True)
        body = self.several(inside, 2)
        if self.chance(0.5):
            return Loop(row, 1, "N", (Loop(column, 1, "J", body),))
        return Loop(column, 1, "J", (Loop(row, 1, "N", body),))

    def foreach(self, scope: Scope) -> Foreach:
        """A loop over a container that no statement writes."""
        variable = self.fresh("e")
        inside = replace(scope, scalars=(*scope.scalars, variable), loops=1)
        return Foreach(variable, Name(self.one_of("xyMDw")), self.several(inside, 2))

    def while_loop(self, scope: Scope) -> Block:
        """A while loop with its counter as an index."""
        short, counter = self.chance(0.5), self.fresh("c")
        few = Apply(forms.LESS, (Name(counter), Name("J" if short else "N")))
        count = Assign(Name(counter), "+=", Literal(1))
        body = self.several(self.within(scope, counter, short), 2)
        return Block((Declare("int", counter, Literal(0)), While(few, (count, *body))))

    def jump(self, scope: Scope) -> Branch:
        word = Jump(self.pick((2, "continue"), (1, "break")))
        return Branch(self.condition(scope), (word,))

    # --- user-defined functions ------------------------------------------------------------------

    def function(self, name: str) -> Function:
        kind = self.one_of(("real", "vector", "_lpdf"))
        arguments = [("int", "N"), ("real", "p"), ("real", "q"), ("vector", "g")]
        if kind == "_lpdf":  # the variate comes first
            arguments = [arguments[1], arguments[0], *arguments[2:]]
        inside = replace(FUNCTION, scalars=("p", "q"), vectors=("g",))
        t = Declare("real", "t", self.leaf(inside))
        h = Declare("vector[N]", "h", self.vector(inside), ("N",))
        early = ()
        if self.parameter_branches and self.chance(0.5):
            early = (Branch(self.parameter_condition(FUNCTION), (self.result(kind),)),)
        body = (t, h, *early, *self.several(FUNCTION, 3), self.result(kind))
        returns = "vector" if kind == "vector" else "real"
        suffix = kind if kind == "_lpdf" else ""
        return Function(name + suffix, returns, tuple(arguments), body)

    def result(self, kind: str) -> Return:
        if kind == "vector":
            return Return(self.bounded_vector(FUNCTION))
        return Return(Apply(self.one_of(forms.BOUNDED), (self.scalar(FUNCTION),)))
