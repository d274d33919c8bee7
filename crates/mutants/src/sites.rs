//! Finds, in a syntax tree, what the mutants change, and the code around it that can be switched.

use std::collections::HashSet;
use std::ops::Range;

use anyhow::Result;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, Block, Expr, ExprBinary, ExprStruct, ExprUnary, File, ItemMod, Pat, Signature,
    Type, UnOp,
};

use crate::Mutant;
use crate::positions::Positions;

/// A mutant's number and the text that stands there where it is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alternative {
    pub(crate) number: u32,
    pub(crate) text: String,
}

/// A stretch of code and what else it may be. It may have others inside.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) bytes: Range<usize>,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// An expression, each alternative one as well.
    Expression(Vec<Alternative>),
    /// Where a function's body begins: what is returned at once.
    Body(Vec<Alternative>),
    /// The end of the pattern of an arm without a guard: who deletes the arm.
    Arm(u32),
    /// The guard of an arm: who deletes the arm, and other guards.
    Guard(Option<u32>, Vec<Alternative>),
    /// A whole body, which stays as it is: what is returned at its beginning may be what the compiler minds elsewhere.
    Whole(Vec<u32>),
}

/// What was found in a file.
pub(crate) struct Found {
    pub(crate) sites: Vec<Site>,
    /// The numbers of the mutants that are in `sites`.
    pub(crate) placed: HashSet<u32>,
    /// Those of them that are in a `const fn`.
    pub(crate) in_const_fn: HashSet<u32>,
}

/// The sites of `mutants` in `text`: none of its tests has one.
pub(crate) fn found(text: &str, positions: &Positions, mutants: &[Mutant]) -> Result<Found> {
    let file: File = syn::parse_file(text)?;
    let found = Found {
        sites: Vec::new(),
        placed: HashSet::new(),
        in_const_fn: HashSet::new(),
    };
    let mut search = Search {
        text,
        positions,
        mutants,
        found,
        outermost: None,
        in_const_fn: false,
    };
    search.visit_file(&file);
    Ok(search.found)
}

struct Search<'a> {
    text: &'a str,
    positions: &'a Positions<'a>,
    mutants: &'a [Mutant],
    found: Found,
    /// The outermost expression of operators around what is visited. A switch inside of one could be a place where it
    /// has to be a value; and precedence changes with an operator, so alternatives are written out whole.
    outermost: Option<Outermost>,
    in_const_fn: bool,
}

struct Outermost {
    bytes: Range<usize>,
    alternatives: Vec<Alternative>,
}

impl Search<'_> {
    /// The mutants of a genre that begin at a byte.
    fn mutants_at(&mut self, genre: &str, start: usize) -> Vec<Mutant> {
        let here: Vec<_> = self
            .mutants
            .iter()
            .filter(|mutant| mutant.start == start && mutant.genre == genre)
            .cloned()
            .collect();
        let numbers = here.iter().map(|mutant| mutant.number);
        self.found.placed.extend(numbers.clone());
        if self.in_const_fn {
            self.found.in_const_fn.extend(numbers);
        }
        here
    }

    /// Those that begin at one, as alternatives for what lies there.
    fn alternatives_at(&mut self, genre: &str, start: usize) -> Vec<Alternative> {
        let here = self.mutants_at(genre, start).into_iter();
        here.map(|mutant| Alternative {
            number: mutant.number,
            text: mutant.replacement,
        })
        .collect()
    }

    /// An operator of the expression that is outermost: each mutant is all of that with another one.
    fn operator(&mut self, genre: &str, operator: Range<usize>) {
        let Some(Outermost { bytes, .. }) = &self.outermost else {
            return;
        };
        let (before, after) = (
            &self.text[bytes.start..operator.start],
            &self.text[operator.end..bytes.end],
        );
        let mutants = self.mutants_at(genre, operator.start).into_iter();
        let alternatives = mutants
            .map(
                |Mutant {
                     number,
                     replacement,
                     ..
                 }| Alternative {
                    number,
                    text: format!("{before}{replacement}{after}"),
                },
            )
            .collect::<Vec<_>>();
        if let Some(outermost) = &mut self.outermost {
            outermost.alternatives.extend(alternatives);
        }
    }

    fn site(&mut self, bytes: Range<usize>, kind: Kind) {
        self.found.sites.push(Site { bytes, kind });
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        let of_operators = match expression {
            Expr::Binary(_) | Expr::Cast(_) => !has_let(expression),
            // What is dereferenced may be a place that is assigned to.
            Expr::Unary(unary) => !matches!(unary.op, UnOp::Deref(_)) && !has_let(expression),
            _ => false,
        };
        if of_operators && self.outermost.is_some() {
            return visit::visit_expr(self, expression);
        }
        let around = self.outermost.take();
        if of_operators {
            self.outermost = Some(Outermost {
                bytes: self.positions.bytes(expression.span()),
                alternatives: Vec::new(),
            });
        }
        visit::visit_expr(self, expression);
        if let Some(Outermost {
            bytes,
            alternatives,
        }) = self.outermost.take()
            && !alternatives.is_empty()
        {
            self.site(bytes, Kind::Expression(alternatives));
        }
        self.outermost = around;
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        self.operator("BinaryOperator", self.positions.bytes(binary.op.span()));
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        self.operator("UnaryOperator", self.positions.bytes(unary.op.span()));
        visit::visit_expr_unary(self, unary);
    }

    /// Mutants of these leave a field to the `..` at the end.
    fn visit_expr_struct(&mut self, expression: &'ast ExprStruct) {
        let whole = self.positions.bytes(expression.span());
        let mut alternatives = Vec::new();
        for pair in expression.fields.pairs() {
            let (field, comma) = pair.into_tuple();
            let field = self.positions.bytes(field.span());
            let end = comma.map_or(field.end, |comma| self.positions.bytes(comma.span()).end);
            let text = format!(
                "{}{}",
                &self.text[whole.start..field.start],
                &self.text[end..whole.end]
            );
            let mutants = self.mutants_at("StructField", field.start);
            alternatives.extend(mutants.iter().map(|mutant| Alternative {
                number: mutant.number,
                text: text.clone(),
            }));
        }
        if !alternatives.is_empty() {
            self.site(whole, Kind::Expression(alternatives));
        }
        visit::visit_expr_struct(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let (start, pattern) = (
            self.positions.bytes(arm.span()).start,
            self.positions.bytes(arm.pat.span()),
        );
        match &arm.guard {
            None => {
                if let [mutant] = &self.mutants_at("MatchArm", start)[..] {
                    self.site(pattern.end..pattern.end, Kind::Arm(mutant.number));
                }
            }
            // One with `let` cannot be an operand.
            Some((_, guard)) if !has_let(guard) => {
                let bytes = self.positions.bytes(guard.span());
                let deleted = self
                    .mutants_at("MatchArm", start)
                    .first()
                    .map(|mutant| mutant.number);
                let others = self.alternatives_at("MatchArmGuard", bytes.start);
                if deleted.is_some() || !others.is_empty() {
                    self.site(bytes, Kind::Guard(deleted, others));
                }
            }
            Some(_) => {}
        }
        if let Some((_, guard)) = &arm.guard {
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        if let Some(first) = block.stmts.first() {
            let start = self.positions.bytes(first.span()).start;
            let returned = self.alternatives_at("FnValue", start);
            if !returned.is_empty() {
                let numbers = returned
                    .iter()
                    .map(|alternative| alternative.number)
                    .collect();
                self.site(self.positions.bytes(block.span()), Kind::Whole(numbers));
                self.site(start..start, Kind::Body(returned));
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, |search| {
            visit::visit_item_fn(search, function)
        });
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, |search| {
            visit::visit_impl_item_fn(search, function)
        });
    }

    // What is computed while compiling, and what is no expression.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let attributes = &mut module
            .attrs
            .iter()
            .map(|attribute| &self.text[self.positions.bytes(attribute.span())]);
        if !attributes.any(|attribute| attribute.contains("cfg(test)")) {
            visit::visit_item_mod(self, module);
        }
    }
}

impl Search<'_> {
    /// Visits a function: one inside of another is not `const` because that is.
    fn function(&mut self, signature: &Signature, visit: impl FnOnce(&mut Self)) {
        let around = std::mem::replace(&mut self.in_const_fn, signature.constness.is_some());
        visit(self);
        self.in_const_fn = around;
    }
}

/// Whether a condition binds names: such a one is no value. What is in a block or a closure does not count.
fn has_let(expression: &Expr) -> bool {
    struct Search(bool);

    impl<'ast> Visit<'ast> for Search {
        fn visit_expr_let(&mut self, _: &'ast syn::ExprLet) {
            self.0 = true;
        }
        fn visit_block(&mut self, _: &'ast Block) {}
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_expr_if(&mut self, _: &'ast syn::ExprIf) {}
        fn visit_expr_while(&mut self, _: &'ast syn::ExprWhile) {}
        fn visit_expr_match(&mut self, _: &'ast syn::ExprMatch) {}
    }

    let mut search = Search(false);
    search.visit_expr(expression);
    search.0
}
