; ModuleID = 'm'
target triple = "x86_64"

; Function Attrs: uwtable
define ptr @add(ptr %0) #0 {
entry:
  tail call void @llvm.experimental.noalias.scope.decl(metadata !6)
  %1 = load <8 x float>, ptr %0, align 32, !invariant.load !3, !noalias !5
  br label %entry ; preds = %x
}

attributes #0 = { uwtable }
!3 = !{}
