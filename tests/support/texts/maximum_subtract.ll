; ModuleID = '__compute_module_maximum_subtract_fusion_kernel_module'
source_filename = "__compute_module_maximum_subtract_fusion_kernel_module"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nofree norecurse nosync nounwind memory(readwrite, target_mem: none) uwtable
define noalias noundef ptr @maximum_subtract_fusion(ptr nofree readonly captures(none) %0) local_unnamed_addr #0 {
  %2 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %3 = load ptr, ptr %2, align 8, !invariant.load !3
  %4 = load ptr, ptr %3, align 8, !invariant.load !3, !dereferenceable !4
  %5 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %6 = load ptr, ptr %5, align 8, !invariant.load !3, !dereferenceable !4
  %7 = getelementptr inbounds nuw i8, ptr %3, i64 32
  %8 = load ptr, ptr %7, align 8, !invariant.load !3, !dereferenceable !5
  %9 = getelementptr inbounds nuw i8, ptr %3, i64 48
  %10 = load ptr, ptr %9, align 8, !invariant.load !3, !dereferenceable !4
  tail call void @llvm.experimental.noalias.scope.decl(metadata !6)
  tail call void @llvm.experimental.noalias.scope.decl(metadata !9)
  tail call void @llvm.experimental.noalias.scope.decl(metadata !11)
  tail call void @llvm.experimental.noalias.scope.decl(metadata !13)
  br label %vector.ph

vector.ph:                                        ; preds = %1, %middle.block
  %11 = phi i64 [ 0, %1 ], [ %74, %middle.block ]
  %12 = shl nuw nsw i64 %11, 8
  br label %vector.body

vector.body:                                      ; preds = %vector.body, %vector.ph
  %index = phi i64 [ 0, %vector.ph ], [ %index.next.3, %vector.body ]
  %13 = add nuw nsw i64 %index, %12
  %14 = getelementptr inbounds nuw [4 x i8], ptr %6, i64 %13
  %15 = getelementptr inbounds nuw i8, ptr %14, i64 32
  %wide.load = load <8 x float>, ptr %14, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %wide.load3 = load <8 x float>, ptr %15, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %16 = getelementptr inbounds nuw [4 x i8], ptr %8, i64 %index
  %17 = getelementptr inbounds nuw i8, ptr %16, i64 32
  %wide.load4 = load <8 x float>, ptr %16, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %wide.load5 = load <8 x float>, ptr %17, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %18 = fadd <8 x float> %wide.load, %wide.load4
  %19 = fadd <8 x float> %wide.load3, %wide.load5
  %20 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %18, <8 x float> zeroinitializer)
  %21 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %19, <8 x float> zeroinitializer)
  %22 = getelementptr inbounds nuw [4 x i8], ptr %4, i64 %13
  %23 = getelementptr inbounds nuw i8, ptr %22, i64 32
  %wide.load6 = load <8 x float>, ptr %22, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %wide.load7 = load <8 x float>, ptr %23, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %24 = fsub <8 x float> %20, %wide.load6
  %25 = fsub <8 x float> %21, %wide.load7
  %26 = getelementptr inbounds nuw [4 x i8], ptr %10, i64 %13
  %27 = getelementptr inbounds nuw i8, ptr %26, i64 32
  store <8 x float> %24, ptr %26, align 4, !alias.scope !13, !noalias !18
  store <8 x float> %25, ptr %27, align 4, !alias.scope !13, !noalias !18
  %index.next = or disjoint i64 %index, 16
  %28 = add nuw nsw i64 %index.next, %12
  %29 = getelementptr inbounds nuw [4 x i8], ptr %6, i64 %28
  %30 = getelementptr inbounds nuw i8, ptr %29, i64 32
  %wide.load.1 = load <8 x float>, ptr %29, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %wide.load3.1 = load <8 x float>, ptr %30, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %31 = getelementptr inbounds nuw [4 x i8], ptr %8, i64 %index.next
  %32 = getelementptr inbounds nuw i8, ptr %31, i64 32
  %wide.load4.1 = load <8 x float>, ptr %31, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %wide.load5.1 = load <8 x float>, ptr %32, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %33 = fadd <8 x float> %wide.load.1, %wide.load4.1
  %34 = fadd <8 x float> %wide.load3.1, %wide.load5.1
  %35 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %33, <8 x float> zeroinitializer)
  %36 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %34, <8 x float> zeroinitializer)
  %37 = getelementptr inbounds nuw [4 x i8], ptr %4, i64 %28
  %38 = getelementptr inbounds nuw i8, ptr %37, i64 32
  %wide.load6.1 = load <8 x float>, ptr %37, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %wide.load7.1 = load <8 x float>, ptr %38, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %39 = fsub <8 x float> %35, %wide.load6.1
  %40 = fsub <8 x float> %36, %wide.load7.1
  %41 = getelementptr inbounds nuw [4 x i8], ptr %10, i64 %28
  %42 = getelementptr inbounds nuw i8, ptr %41, i64 32
  store <8 x float> %39, ptr %41, align 4, !alias.scope !13, !noalias !18
  store <8 x float> %40, ptr %42, align 4, !alias.scope !13, !noalias !18
  %index.next.1 = or disjoint i64 %index, 32
  %43 = add nuw nsw i64 %index.next.1, %12
  %44 = getelementptr inbounds nuw [4 x i8], ptr %6, i64 %43
  %45 = getelementptr inbounds nuw i8, ptr %44, i64 32
  %wide.load.2 = load <8 x float>, ptr %44, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %wide.load3.2 = load <8 x float>, ptr %45, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %46 = getelementptr inbounds nuw [4 x i8], ptr %8, i64 %index.next.1
  %47 = getelementptr inbounds nuw i8, ptr %46, i64 32
  %wide.load4.2 = load <8 x float>, ptr %46, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %wide.load5.2 = load <8 x float>, ptr %47, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %48 = fadd <8 x float> %wide.load.2, %wide.load4.2
  %49 = fadd <8 x float> %wide.load3.2, %wide.load5.2
  %50 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %48, <8 x float> zeroinitializer)
  %51 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %49, <8 x float> zeroinitializer)
  %52 = getelementptr inbounds nuw [4 x i8], ptr %4, i64 %43
  %53 = getelementptr inbounds nuw i8, ptr %52, i64 32
  %wide.load6.2 = load <8 x float>, ptr %52, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %wide.load7.2 = load <8 x float>, ptr %53, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %54 = fsub <8 x float> %50, %wide.load6.2
  %55 = fsub <8 x float> %51, %wide.load7.2
  %56 = getelementptr inbounds nuw [4 x i8], ptr %10, i64 %43
  %57 = getelementptr inbounds nuw i8, ptr %56, i64 32
  store <8 x float> %54, ptr %56, align 4, !alias.scope !13, !noalias !18
  store <8 x float> %55, ptr %57, align 4, !alias.scope !13, !noalias !18
  %index.next.2 = or disjoint i64 %index, 48
  %58 = add nuw nsw i64 %index.next.2, %12
  %59 = getelementptr inbounds nuw [4 x i8], ptr %6, i64 %58
  %60 = getelementptr inbounds nuw i8, ptr %59, i64 32
  %wide.load.3 = load <8 x float>, ptr %59, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %wide.load3.3 = load <8 x float>, ptr %60, align 4, !invariant.load !3, !alias.scope !9, !noalias !15
  %61 = getelementptr inbounds nuw [4 x i8], ptr %8, i64 %index.next.2
  %62 = getelementptr inbounds nuw i8, ptr %61, i64 32
  %wide.load4.3 = load <8 x float>, ptr %61, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %wide.load5.3 = load <8 x float>, ptr %62, align 4, !invariant.load !3, !alias.scope !11, !noalias !16
  %63 = fadd <8 x float> %wide.load.3, %wide.load4.3
  %64 = fadd <8 x float> %wide.load3.3, %wide.load5.3
  %65 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %63, <8 x float> zeroinitializer)
  %66 = tail call <8 x float> @llvm.maximum.v8f32(<8 x float> %64, <8 x float> zeroinitializer)
  %67 = getelementptr inbounds nuw [4 x i8], ptr %4, i64 %58
  %68 = getelementptr inbounds nuw i8, ptr %67, i64 32
  %wide.load6.3 = load <8 x float>, ptr %67, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %wide.load7.3 = load <8 x float>, ptr %68, align 4, !invariant.load !3, !alias.scope !6, !noalias !17
  %69 = fsub <8 x float> %65, %wide.load6.3
  %70 = fsub <8 x float> %66, %wide.load7.3
  %71 = getelementptr inbounds nuw [4 x i8], ptr %10, i64 %58
  %72 = getelementptr inbounds nuw i8, ptr %71, i64 32
  store <8 x float> %69, ptr %71, align 4, !alias.scope !13, !noalias !18
  store <8 x float> %70, ptr %72, align 4, !alias.scope !13, !noalias !18
  %index.next.3 = add nuw nsw i64 %index, 64
  %73 = icmp eq i64 %index.next.3, 256
  br i1 %73, label %middle.block, label %vector.body, !llvm.loop !19

middle.block:                                     ; preds = %vector.body
  %74 = add nuw nsw i64 %11, 1
  %exitcond2.not = icmp eq i64 %74, 128
  br i1 %exitcond2.not, label %maximum_subtract_fusion_wrapped.exit, label %vector.ph, !llvm.loop !22

maximum_subtract_fusion_wrapped.exit:             ; preds = %middle.block
  ret ptr null
}

; Function Attrs: mustprogress nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: readwrite)
declare void @llvm.experimental.noalias.scope.decl(metadata) #1

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>) #2

attributes #0 = { nofree norecurse nosync nounwind memory(readwrite, target_mem: none) uwtable "frame-pointer"="all" "prefer-vector-width"="256" }
attributes #1 = { mustprogress nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: readwrite) }
attributes #2 = { nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}
!xla_cpu_memory_region_name = !{!2}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 1, !"xla_dylib_index", i64 1}
!2 = !{!"xla_cpu_emitter__loop_fusion_kernel_emitter__hlo_opcode__fusion"}
!3 = !{}
!4 = !{i64 131072}
!5 = !{i64 1024}
!6 = !{!7}
!7 = distinct !{!7, !8, !"maximum_subtract_fusion_wrapped: argument 0"}
!8 = distinct !{!8, !"maximum_subtract_fusion_wrapped"}
!9 = !{!10}
!10 = distinct !{!10, !8, !"maximum_subtract_fusion_wrapped: argument 1"}
!11 = !{!12}
!12 = distinct !{!12, !8, !"maximum_subtract_fusion_wrapped: argument 2"}
!13 = !{!14}
!14 = distinct !{!14, !8, !"maximum_subtract_fusion_wrapped: argument 3"}
!15 = !{!7, !12, !14}
!16 = !{!7, !10, !14}
!17 = !{!10, !12, !14}
!18 = !{!7, !10, !12}
!19 = distinct !{!19, !20, !21}
!20 = !{!"llvm.loop.isvectorized", i32 1}
!21 = !{!"llvm.loop.unroll.runtime.disable"}
!22 = distinct !{!22, !23}
!23 = !{!"llvm.loop.unroll.disable"}
